// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roster-mesh/roster/e2e/harness"
)

// within is how long anything may take that needs no more than some requests, on a busy machine. What the
// project promises is far less, and measured elsewhere.
const within = 60 * time.Second

// afterFault is how long a repair may take after an outage: connections notice their end by timeouts.
const afterFault = 3 * time.Minute

func TestMain(m *testing.M) {
	isolated, err := harness.InNetworkNamespace()
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		os.Exit(1)
	}
	shared.isolated = isolated
	if err := leaveOut(); err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		os.Exit(1)
	}
	code := m.Run()
	if err := shared.close(code == 0); err != nil {
		fmt.Fprintln(os.Stderr, "e2e: end the clusters:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// shared is the group that the tests share, made by the first test that asks.
var shared sharedGroup

type sharedGroup struct {
	isolated bool
	start    sync.Once
	join     sync.Once
	g        *group
	dir      string
	err      error
}

// group is three clusters with agents and one without.
type group struct {
	*harness.Fleet

	alpha, beta, gamma, delta *harness.Cluster
	isolated                  bool
}

func (s *sharedGroup) close(ok bool) error {
	if s.g == nil {
		return nil
	}
	if err := s.g.Close(); err != nil {
		return err
	}
	if !ok {
		fmt.Fprintln(os.Stderr, "e2e: logs and data stay in", s.dir)
		return nil
	}
	return os.RemoveAll(s.dir)
}

// apart returns the clusters with their agents, perhaps before they were joined.
func apart(t *testing.T) *group {
	t.Helper()
	shared.start.Do(func() { shared.g, shared.err = startGroup(t.Context(), &shared) })
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			for _, c := range shared.g.Clusters[:3] {
				t.Logf("last lines of agent %s:\n%s", c.Name, c.LogTail(25))
			}
		}
	})
	return shared.g
}

func startGroup(ctx context.Context, s *sharedGroup) (*group, error) {
	bin, err := harness.FindBinaries()
	if err != nil {
		return nil, err
	}
	if s.dir, err = os.MkdirTemp("", "roster-e2e-"); err != nil {
		return nil, err
	}
	if err := os.Chmod(s.dir, 0o755); err != nil { // each agent has a user of its own
		return nil, err
	}
	fleet, err := harness.Up(ctx, harness.Options{
		Binaries: bin, Dir: s.dir, Names: []string{"alpha", "beta", "gamma", "delta"}, Isolate: s.isolated,
	})
	if err != nil {
		return nil, err
	}
	g := &group{Fleet: fleet, isolated: s.isolated}
	g.alpha, g.beta, g.gamma, g.delta = fleet.Clusters[0], fleet.Clusters[1], fleet.Clusters[2], fleet.Clusters[3]
	all, ctx := errgroup.WithContext(ctx)
	for _, c := range fleet.Clusters {
		all.Go(func() error {
			err := c.Install(ctx)
			if err == nil && c != g.delta {
				err = c.StartAgent(ctx)
			}
			return err
		})
	}
	if err := all.Wait(); err != nil {
		return nil, fmt.Errorf("%w; stopped: %v", err, fleet.Close()) //nolint:errorlint // The first one counts.
	}
	return g, nil
}

// joined returns the group when every cluster says of every other that it is synced.
func joined(t *testing.T) *group {
	t.Helper()
	g := apart(t)
	shared.join.Do(func() {
		for _, newcomer := range []string{"beta", "gamma"} {
			if synced(t.Context(), g.alpha, g.Find(newcomer)) != nil {
				if out, err := g.Agentctl(t.Context(), "join", "--context", "alpha", "--peer-context", newcomer); err != nil {
					t.Fatalf("%v\n%s", err, out)
				}
			}
		}
	})
	g.eventuallyWhole(t, within)
	return g
}

// eventuallyWhole waits until every cluster with an agent lists every other as synced.
func (g *group) eventuallyWhole(t *testing.T, limit time.Duration) {
	t.Helper()
	eventually(t, "all three clusters synced with each other", limit, g.whole)
}

func (g *group) whole(ctx context.Context) error { return listEachOther(g.Clusters[:3]...)(ctx) }

// listEachOther: each of the clusters lists itself and the others as synced.
func listEachOther(clusters ...*harness.Cluster) func(context.Context) error {
	return func(ctx context.Context) error {
		for _, at := range clusters {
			for _, of := range clusters {
				if err := synced(ctx, at, of); err != nil {
					return fmt.Errorf("in %s: %w", at.Name, err)
				}
			}
		}
		return nil
	}
}

func synced(ctx context.Context, at, of *harness.Cluster) error {
	u, err := at.Dynamic.Resource(harness.Clusters()).Get(ctx, of.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	return harness.ConditionTrue(u, "ClustersSynced")
}
