// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/roster-mesh/roster/e2e/harness"
)

// ofTheirOwn starts clusters with agents that nobody joined, which end with the test. What they run is in bin.
func ofTheirOwn(t *testing.T, bin harness.Binaries, names ...string) *harness.Fleet {
	t.Helper()
	fleet := notStarted(t, bin, names...)
	start(t, fleet.Clusters...)
	return fleet
}

// notStarted are clusters that end with the test, without agents.
func notStarted(t *testing.T, bin harness.Binaries, names ...string) *harness.Fleet {
	t.Helper()
	fleet, err := harness.Up(t.Context(), harness.Options{Binaries: bin, Dir: t.TempDir(), Names: names})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			for _, c := range fleet.Clusters {
				t.Logf("last lines of agent %s:\n%s", c.Name, c.LogTail(25))
			}
		}
		if err := fleet.Close(); err != nil {
			t.Error(err)
		}
	})
	return fleet
}

// start installs the chart in clusters, and starts their agents.
func start(t *testing.T, clusters ...*harness.Cluster) {
	t.Helper()
	group, ctx := errgroup.WithContext(t.Context())
	for _, c := range clusters {
		group.Go(func() error {
			if err := c.Install(ctx); err != nil {
				return err
			}
			return c.StartAgent(ctx)
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
}

// five is a group of as many clusters, which end with the test.
func five(t *testing.T) *harness.Fleet {
	t.Helper()
	bin, err := harness.FindBinaries()
	if err != nil {
		t.Fatal(err)
	}
	fleet := ofTheirOwn(t, bin, "one", "two", "three", "four", "five")
	var newcomers []string
	for _, c := range fleet.Clusters[1:] {
		newcomers = append(newcomers, c.Name)
	}
	if out, err := fleet.Agentctl(t.Context(), "join", "--context", fleet.Clusters[0].Name, "--peer-context", strings.Join(newcomers, ",")); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return fleet
}

// The owner is down and a copy is changed: it stays so, or is restored to what the owner had, but none of the
// other copies follows it.
func TestParityC20_FiveClustersOwnerDownTampered(t *testing.T) {
	g := five(t)
	owner, survivors := g.Clusters[0], g.Clusters[1:]
	everywhere := func(name, value string) {
		t.Helper()
		for _, c := range survivors {
			eventually(t, name+" is in "+c.Name, afterFault, hasCopy(c, owner, name, value))
		}
	}
	apply(t, owner, rule("mark", "mark")+"    - labels: [{matchLabels: {for: all}}]\n      namespaces: ["+harness.Namespace+"]\n")
	putSecret(t, owner, "mark", "one")
	everywhere("mark", "one")

	if err := errors.Join(owner.KillAgent(), owner.StopAPIServer(t.Context())); err != nil {
		t.Fatal(err)
	}
	// What one survivor's copy becomes must reach none of the others, with agents that knew the owner's object
	// and with ones that do not; each is tampered with in turn.
	for round, restart := range []bool{false, true} {
		if restart {
			for _, c := range survivors {
				if err := c.RestartAgent(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
		}
		for i, c := range survivors {
			bad := fmt.Sprintf("tampered in %s, round %d", c.Name, round)
			putSecret(t, c, "mark", bad)
			marker := fmt.Sprintf("marker-%d-%d", round, i)
			secret := (&room{}).object(harness.Secrets(), marker, "all", "here")
			secret.SetNamespace(harness.Namespace)
			put(t, c, harness.Secrets(), secret)
			for _, other := range survivors {
				if other != c {
					eventually(t, marker+" is in "+other.Name, afterFault, copied(other, c, harness.Secrets(), harness.Namespace, marker, "here"))
				}
			}
		}
		for _, c := range survivors {
			u, err := get(t.Context(), c, harness.Secrets(), harness.Namespace, "mark")
			if err != nil {
				t.Fatal(err)
			}
			own := map[string]bool{"one": true}
			for done := range round + 1 {
				own[fmt.Sprintf("tampered in %s, round %d", c.Name, done)] = true
			}
			if got := valueOf(u); !own[got] {
				t.Errorf("%s has %q, which is neither the owner's nor its own", c.Name, got)
			} else {
				t.Logf("%s has %q", c.Name, got)
			}
			eventually(t, c.Name+" reports that the owner is out of reach", afterFault, ruleIs(c, "mark", "False", owner.Name))
		}
	}

	if err := errors.Join(owner.StartAPIServer(t.Context()), owner.StartAgent(t.Context())); err != nil {
		t.Fatal(err)
	}
	everywhere("mark", "one")
	putSecret(t, owner, "mark", "two")
	everywhere("mark", "two")
}
