// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/clusters"
)

// Where nothing can be seen, nobody knows whether it is there, and the reason is said; it is known again once it can be seen.
func TestWhatCannotBeSeenIsUnknown(t *testing.T) {
	t.Parallel()
	server, own := serve(t)
	server.Set("resourcesyncrules", "")
	ctx, cancel := context.WithCancel(t.Context())
	one, err := connect(ctx, own, secretOptions())
	if err != nil {
		t.Fatal(err)
	}
	followed := make(chan struct{})
	go func() {
		defer close(followed)
		follow(ctx, one.watches.Resource(clusters.RuleResource()), namePrefix+"x", one.rule.sights)
	}()
	defer func() { cancel(); <-followed }()
	over, stop := context.WithCancel(ctx)
	stop()
	for one.rule.failed == nil { // what comes at the end of a step may be seen, or not
		if _, ok := one.rule.await(over, gone); ok {
			t.Fatal("what cannot be seen is gone")
		}
	}
	one.missed(ctx, one.rule, "late", namePrefix+"x")
	if !strings.Contains(one.unknown, "you may not read resourcesyncrules") || !strings.Contains(one.Message, "it cannot be watched: ") {
		t.Errorf("it is said that %q, %q", one.unknown, one.Message)
	}
	server.Set("", "")
	if _, ok := one.rule.await(ctx, gone); !ok || one.rule.failed != nil {
		t.Errorf("then it can be seen, but %v", one.rule.failed)
	}
}

type transport func(*http.Request) (*http.Response, error)

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) { return t(r) }

// A watch lasts as long as the command: one that is cut would be told late of what happens meanwhile.
func TestWatchesLast(t *testing.T) {
	t.Parallel()
	server, _ := serve(t)
	left := make(chan time.Duration, 10)
	config := &rest.Config{Host: server.URL}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return transport(func(r *http.Request) (*http.Response, error) {
			if until, bounded := r.Context().Deadline(); r.URL.Query().Get("watch") == "true" && bounded {
				left <- time.Until(until)
			} else if r.URL.Query().Get("watch") == "true" {
				left <- 1000 * time.Hour
			}
			return next.RoundTrip(r)
		})
	})
	own, err := clusters.New("east", config)
	if err != nil {
		t.Fatal(err)
	}
	one, err := connect(t.Context(), own, secretOptions())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	followed := make(chan struct{})
	go func() {
		defer close(followed)
		follow(ctx, one.watches.Resource(clusters.RuleResource()), namePrefix+"x", one.rule.sights)
	}()
	if n := <-left; n < time.Hour {
		t.Errorf("a watch ends after %s", n)
	}
	cancel()
	<-followed
}
