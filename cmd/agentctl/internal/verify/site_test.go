// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/apitest"
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

// A rule is in force where the canary's own cluster is watched, whatever stops another source. It is not where the agent does not
// obey it, or has not looked at it as it is.
func TestInForceDespiteAnotherSource(t *testing.T) {
	t.Parallel()
	const watched, frozen = "[{clusterID: other}, {clusterID: east, watching: true}]", "[{clusterID: other, watching: true}, {clusterID: east}]"
	for _, c := range []struct {
		status, reason, sources string
		generation              int
		want                    bool
	}{
		{"True", "Synced", "[]", 2, true},
		{"False", "SourceUnreachable", watched, 2, true},
		{"False", "SourcePermission", watched, 2, true},
		{"False", "SourceUnreachable", watched, 1, false},
		{"False", "SourceUnreachable", frozen, 2, false},
		{"False", "SourceUnreachable", "[]", 2, false},
		{"False", "Paused", watched, 2, false},
		{"Unknown", "Starting", watched, 2, false},
	} {
		u := apitest.Parse(t, fmt.Sprintf(`
apiVersion: clusterregistry.k8s.cisco.com/v1alpha1
kind: ResourceSyncRule
metadata: {name: roster-verify-x, generation: 2}
status:
  sources: %s
  conditions: [{type: Ready, status: %q, reason: %s, observedGeneration: %d}]
`, c.sources, c.status, c.reason, c.generation))
		if got := inForce(u, "east"); got != c.want {
			t.Errorf("%+v: in force: %t", c, got)
		}
	}
	if inForce(nil, "east") {
		t.Error("a rule that is not there is in force")
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
