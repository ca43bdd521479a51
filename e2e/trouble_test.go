// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roster-mesh/roster/e2e/harness"
)

// outageTime is a minute, or with -short as much as it takes for watches to break.
func outageTime() time.Duration {
	if testing.Short() {
		return 5 * time.Second
	}
	return time.Minute
}

// One cluster's API server is down while everything changes: the others go on, its copies elsewhere stay,
// and it makes up for what it missed.
func TestAPIServerDownForAMinute(t *testing.T) {
	g := joined(t)
	for _, name := range []string{"from-gamma", "from-beta", "to-be-deleted", "born-meanwhile"} {
		g.cleanUp(t, name)
	}
	g.share(t, "from-gamma", "one")
	g.share(t, "to-be-deleted", "one")
	putSecret(t, g.beta, "from-beta", "one")
	apply(t, g.alpha, rule("from-beta", "from-beta"))
	eventually(t, "beta's Secret is in alpha", within, hasCopy(g.alpha, g.beta, "from-beta", "one"))

	if err := g.beta.StopAPIServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	down := true
	t.Cleanup(func() {
		if down {
			if err := g.beta.StartAPIServer(lasting(t)); err != nil {
				t.Error(err)
			}
		}
	})
	began := time.Now()
	putSecret(t, g.gamma, "from-gamma", "two")
	deleteSecret(t, g.gamma, "to-be-deleted")
	putSecret(t, g.gamma, "born-meanwhile", "one")
	apply(t, g.alpha, rule("born-meanwhile", "born-meanwhile"))
	eventually(t, "an update goes round beta", within, hasCopy(g.alpha, g.gamma, "from-gamma", "two"))
	eventually(t, "a deletion goes round beta", within, noSecret(g.alpha, "to-be-deleted"))
	eventually(t, "a new Secret goes round beta", within, hasCopy(g.alpha, g.gamma, "born-meanwhile", "one"))
	stays(t, "copies of an unreachable source stay, and agents stay up", outageTime()-time.Since(began), func(ctx context.Context) error {
		for _, c := range g.Clusters[:3] {
			if err := c.AgentAlive(ctx); err != nil {
				return err
			}
		}
		return hasCopy(g.alpha, g.beta, "from-beta", "one")(ctx)
	})

	down = false
	if err := g.beta.StartAPIServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "beta has the update", afterFault, hasCopy(g.beta, g.gamma, "from-gamma", "two"))
	eventually(t, "beta has the deletion", afterFault, noSecret(g.beta, "to-be-deleted"))
	eventually(t, "beta has the new Secret", afterFault, hasCopy(g.beta, g.gamma, "born-meanwhile", "one"))
	g.eventuallyWhole(t, afterFault)
	putSecret(t, g.beta, "from-beta", "two")
	eventually(t, "beta is a source again", afterFault, hasCopy(g.alpha, g.beta, "from-beta", "two"))
}

// The source's API server and agent are both gone: what is known of them stays as it is.
func TestUnreachableSourceFreezes(t *testing.T) {
	g := joined(t)
	g.cleanUp(t, "frozen")
	g.share(t, "frozen", "one")
	if err := g.gamma.KillAgent(); err != nil {
		t.Fatal(err)
	}
	if err := g.gamma.StopAPIServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	back := func(ctx context.Context) {
		if err := errors.Join(g.gamma.StartAPIServer(ctx), g.gamma.StartAgent(ctx)); err != nil {
			t.Error(err)
		}
	}
	restored := false
	t.Cleanup(func() {
		if !restored {
			back(lasting(t))
		}
	})
	eventually(t, "alpha no longer says that gamma is synced", afterFault, func(ctx context.Context) error {
		if synced(ctx, g.alpha, g.gamma) == nil {
			return errors.New("it does")
		}
		return nil
	})
	frozen := func(ctx context.Context) error {
		return errors.Join(hasCopy(g.alpha, g.gamma, "frozen", "one")(ctx), hasCopy(g.beta, g.gamma, "frozen", "one")(ctx))
	}
	stays(t, "the copies are as they were", 3*quiet, frozen)
	// A reader that starts anew knows nothing of the source but its copies, and deletes nothing for that.
	if err := g.beta.RestartAgent(t.Context()); err != nil {
		t.Fatal(err)
	}
	stays(t, "also after a restart of a reader", 3*quiet, frozen)
	restored = true
	back(t.Context())
	putSecret(t, g.gamma, "frozen", "two")
	g.eventuallyCopies(t, "frozen", "two")
	g.eventuallyWhole(t, afterFault)
}

// Two clusters that do not reach each other at all, while a third reaches both.
func TestPartitionOfTwo(t *testing.T) {
	g := joined(t)
	if !g.isolated {
		t.Skip("needs root: agents are told apart by their users, in a network namespace")
	}
	for _, name := range []string{"split", "of-gamma", "of-alpha", "gone-in-alpha"} {
		g.cleanUp(t, name)
	}
	g.share(t, "of-gamma", "one")
	for _, name := range []string{"of-alpha", "gone-in-alpha"} {
		putSecret(t, g.alpha, name, "one")
		apply(t, g.alpha, rule(name, name))
		eventually(t, name+" is in beta", within, hasCopy(g.beta, g.alpha, name, "one"))
	}

	if err := g.Cut(t.Context(), g.alpha, g.beta); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Heal(lasting(t), g.alpha, g.beta); err != nil {
			t.Error(err)
		}
	})
	putSecret(t, g.gamma, "split", "one")
	apply(t, g.alpha, rule("split", "split"))
	eventually(t, "alpha's new rule reaches beta through gamma", afterFault, hasRule(g.beta, "split"))
	eventually(t, "and with it gamma's Secret", within, hasCopy(g.beta, g.gamma, "split", "one"))
	putSecret(t, g.gamma, "of-gamma", "two")
	g.eventuallyCopies(t, "of-gamma", "two")
	putSecret(t, g.alpha, "of-alpha", "two")
	deleteSecret(t, g.alpha, "gone-in-alpha")
	eventually(t, "gamma sees alpha's change", within, hasCopy(g.gamma, g.alpha, "of-alpha", "two"))
	eventually(t, "gamma sees alpha's deletion", within, noSecret(g.gamma, "gone-in-alpha"))
	stays(t, "beta, which does not, keeps what it has", partitionTime(), func(ctx context.Context) error {
		return errors.Join(hasCopy(g.beta, g.alpha, "of-alpha", "one")(ctx), hasCopy(g.beta, g.alpha, "gone-in-alpha", "one")(ctx))
	})
	eventually(t, "gamma reaches both", within, func(ctx context.Context) error {
		return errors.Join(synced(ctx, g.gamma, g.alpha), synced(ctx, g.gamma, g.beta))
	})

	if err := g.Heal(t.Context(), g.alpha, g.beta); err != nil {
		t.Fatal(err)
	}
	eventually(t, "healed, beta has alpha's change", afterFault, hasCopy(g.beta, g.alpha, "of-alpha", "two"))
	eventually(t, "and alpha's deletion", afterFault, noSecret(g.beta, "gone-in-alpha"))
	g.eventuallyWhole(t, afterFault)
}

func partitionTime() time.Duration {
	if testing.Short() {
		return 5 * time.Second
	}
	return 20 * time.Second
}

// All agents crash at once, again and again, and nothing is lost or deleted by that.
func TestEveryAgentCrashes(t *testing.T) {
	g := joined(t)
	g.cleanUp(t, "survivor")
	g.share(t, "survivor", "0")
	for round := 1; round <= 3; round++ {
		for _, c := range g.Clusters[:3] {
			if err := c.KillAgent(); err != nil {
				t.Fatal(err)
			}
		}
		putSecret(t, g.gamma, "survivor", fmt.Sprint(round))
		g.startAgents(t)
		g.eventuallyCopies(t, "survivor", fmt.Sprint(round))
	}
	g.eventuallyWhole(t, afterFault)
	for _, c := range g.Clusters[:3] {
		list, err := c.Dynamic.Resource(harness.Clusters()).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if len(list.Items) != 3 {
			t.Errorf("%s lists %d clusters, not 3", c.Name, len(list.Items))
		}
	}
}
