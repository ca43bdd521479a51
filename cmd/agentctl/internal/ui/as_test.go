// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package ui

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/apitest"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/clusters"
)

// With --as, everything that the page shows is what that user may see.
func TestAs(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	asked := map[string]int{}
	api := apitest.New()
	defer api.Close()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		asked[r.Header.Get("Impersonate-User")]++
		mu.Unlock()
		api.Serve(w, r)
	}))
	defer s.Close()
	at := clusters.Access{Kubeconfig: filepath.Join(t.TempDir(), "config"), As: "jane"}
	text := fmt.Sprintf("{current-context: a, clusters: [{name: c, cluster: {server: %q}}], contexts: [{name: a, context: {cluster: c}}, {name: b, context: {cluster: c}}]}", s.URL)
	if err := os.WriteFile(at.Kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	b, err := (&Options{Access: at, Uses: noUses(), Contexts: []string{"b"}}).open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range b.points {
		p.follower.Await(t.Context())
	}
	b.stop()
	mu.Lock()
	defer mu.Unlock()
	if len(asked) != 1 || asked["jane"] == 0 {
		t.Errorf("requests by user: %v", asked)
	}
}
