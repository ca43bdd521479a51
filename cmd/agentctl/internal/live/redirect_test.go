// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/clusters"
)

// No client follows a redirect, with which the credential would go to another server.
func TestNoRedirects(t *testing.T) {
	t.Parallel()
	var asked, followed atomic.Int32
	again := make(chan struct{})
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { followed.Add(1) }))
	defer other.Close()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1) == 4 { // one kind for the second time: its first answer has been dealt with
			close(again)
		}
		http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
	}))
	defer s.Close()
	c, err := clusters.New("east", &rest.Config{Host: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.ClusterID(t.Context()); err == nil {
		t.Error("a redirect is an answer")
	}
	f, err := Follow(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Stop()
	await(t, f, "that the list fails", func(v View) bool { return strings.Contains(v.Problem, "307") })
	<-again
	if n := followed.Load(); n > 0 {
		t.Errorf("%d redirects followed", n)
	}
}
