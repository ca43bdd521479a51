// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/roster-mesh/roster/e2e/harness"
	"github.com/roster-mesh/roster/kube/api/agentrecord"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

var failover = flag.Duration("failover", within, "how long it may take until the next agent writes; on a machine that does nothing else, 3s")

// three replaces the agent of alpha by three, and puts it back at the end.
func three(t *testing.T, g *group) *harness.Siblings {
	t.Helper()
	if err := g.alpha.StopAgent(); err != nil {
		t.Fatal(err)
	}
	all, err := g.alpha.NewSiblings(t.Context(), 3)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			for _, s := range all.Agents {
				t.Logf("last lines of agent %d of alpha:\n%s", s.Index, s.LogTail(30))
			}
		}
		ctx := lasting(t)
		err := all.Close()
		gone := g.alpha.Kube.CoreV1().Secrets(v1alpha1.PrivateNamespace(harness.Namespace)).Delete(ctx, agentrecord.Name, metav1.DeleteOptions{})
		if err := errors.Join(err, gone, g.alpha.StartAgent(ctx)); err != nil {
			t.Error(err)
		}
		g.eventuallyWhole(t, afterFault)
	})
	for _, s := range all.Agents {
		if err := s.Launch(); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "three agents of alpha are ready", afterFault, all.AllReady)
	g.eventuallyWhole(t, afterFault)
	return all
}

func leaderOf(t *testing.T, all *harness.Siblings) (leader *harness.Sibling) {
	t.Helper()
	eventually(t, "one agent of alpha leads", afterFault, func(ctx context.Context) (err error) {
		leader, err = all.Leader(ctx)
		return err
	})
	return leader
}

// copies watches what is written of the load's Secrets in a cluster.
type copies struct {
	mu     sync.Mutex
	last   map[string]string // name → value, "" after its deletion
	faults []string
	writes int
}

// watchCopies looks at each write of a copy: one that changes nothing was made twice, and one that goes back was made by
// an agent that had nothing to say any more.
func watchCopies(t *testing.T, at *harness.Cluster) *copies {
	t.Helper()
	ctx, cancel := context.WithCancel(lasting(t))
	secrets := at.Dynamic.Resource(harness.Secrets()).Namespace(harness.Namespace)
	w, err := secrets.Watch(ctx, metav1.ListOptions{LabelSelector: loadLabel})
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	c := &copies{last: map[string]string{}}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for event := range w.ResultChan() {
			if u, ok := event.Object.(*unstructured.Unstructured); ok && u.GetAnnotations()[v1alpha1.AnnotationOwnerClusterID] != "" {
				c.see(event.Type, u)
			}
		}
	}()
	t.Cleanup(func() {
		w.Stop()
		cancel()
		<-ended
	})
	return c
}

func (c *copies) see(kind watch.EventType, u *unstructured.Unstructured) {
	c.mu.Lock()
	defer c.mu.Unlock()
	name, value := u.GetName(), valueOf(u)
	if kind == watch.Deleted {
		value = ""
	}
	c.writes++
	before := c.last[name]
	number := func(v string) int { n, _ := strconv.Atoi(strings.TrimPrefix(v, "v")); return n }
	switch {
	case before == value:
		c.faults = append(c.faults, fmt.Sprintf("%s: %s %q twice", name, kind, value))
	case value != "" && number(value) < number(before):
		c.faults = append(c.faults, fmt.Sprintf("%s: %q after %q", name, value, before))
	}
	c.last[name] = value
}

// Three agents of one cluster: the active one is killed under load, again and again. Another one goes on within the time,
// in the same epoch; nothing is lost, and nothing is written twice.
func TestLeaderKilledUnderLoad(t *testing.T) {
	g := joined(t)
	all := three(t, g)
	epoch := toldEpoch(t, leaderOf(t, all))
	apply(t, g.alpha, loadRule)
	loads, end := g.startLoad(t, *seed)
	watched := watchCopies(t, g.alpha)
	var took []time.Duration
	for n := range 4 {
		leader := leaderOf(t, all)
		if err := leader.Kill(); err != nil {
			t.Fatal(err)
		}
		took = append(took, g.firstWrite(t, n))
		t.Logf("agent %d killed: the next one's first write %.2f s after", leader.Index, took[n].Seconds())
		if err := leader.Launch(); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the killed agent is ready again", afterFault, all.AllReady)
	}
	end()
	for _, c := range g.Clusters[:3] {
		eventually(t, c.Name+" has everything, and nothing else", 3*afterFault, func(ctx context.Context) error { return audit(ctx, c, loads) })
	}
	watched.mu.Lock()
	defer watched.mu.Unlock()
	t.Logf("%d writes of copies in alpha", watched.writes)
	if len(watched.faults) > 0 {
		t.Errorf("writes that should not have been: %q", watched.faults)
	}
	if now := toldEpoch(t, leaderOf(t, all)); now != epoch {
		t.Errorf("the epoch was %s and is %s", epoch, now)
	}
	if slices.Sort(took); took[1] > *failover { // one of them may meet with a busy machine
		t.Errorf("failovers took %v", took)
	}
}

// firstWrite is how long it takes from now until something that is made in beta now is in alpha.
func (g *group) firstWrite(t *testing.T, n int) time.Duration {
	t.Helper()
	began := time.Now()
	l := &load{cluster: g.beta}
	name := fmt.Sprintf("failover-%d", n)
	if err := l.putSecret(lasting(t), name, "v1"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := remove(lasting(t), g.beta, harness.Secrets(), harness.Namespace, name); err != nil {
			t.Error(err)
		}
	})
	if _, err := harness.Wait(t.Context(), "a write of the next agent", afterFault, hasCopy(g.alpha, g.beta, name, "v1")); err != nil {
		t.Fatal(err)
	}
	took := time.Since(began)
	deleteSecret(t, g.beta, name)
	eventually(t, name+" is gone", afterFault, noSecret(g.alpha, name))
	eventually(t, name+" is gone in gamma", afterFault, noSecret(g.gamma, name))
	return took
}

func toldEpoch(t *testing.T, s *harness.Sibling) (epoch string) {
	t.Helper()
	eventually(t, "the leader tells its epoch", afterFault, func(ctx context.Context) error {
		page, err := s.HTTP(ctx, "/metrics")
		if err != nil {
			return err
		}
		for line := range strings.Lines(page) {
			if strings.HasPrefix(line, "roster_replica_epoch_at_start ") {
				epoch = strings.TrimSpace(line)
				return nil
			}
		}
		return errors.New("no such metric")
	})
	return epoch
}

// A follower's disk is lost, and then two agents with their disks: the one that is left says so, and goes on when it is
// told to.
func TestDisksOfAgentsLost(t *testing.T) {
	g := joined(t)
	g.cleanUp(t, "disks")
	all := three(t, g)
	apply(t, g.alpha, rule("disks", "disks"))
	putSecret(t, g.beta, "disks", "one")
	eventually(t, "alpha has the copy", afterFault, hasCopy(g.alpha, g.beta, "disks", "one"))

	leader := leaderOf(t, all)
	survivor := all.Agents[(leader.Index+1)%3]
	follower := all.Agents[(leader.Index+2)%3]
	if err := errors.Join(follower.Kill(), follower.LoseDisk(), follower.Launch()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the follower without a disk is ready again", afterFault, all.AllReady)
	eventually(t, "the group has three members, and not four", afterFault, func(ctx context.Context) error {
		page, err := leaderOf(t, all).HTTP(ctx, "/metrics")
		if err == nil && !strings.Contains(page, "\nroster_agents_members 3\n") {
			err = errors.New("it has not")
		}
		return err
	})
	out, err := g.alpha.Agentctl(t.Context(), "group", "recover")
	if err == nil || !strings.Contains(err.Error()+out, "no agent of this cluster says that its group has no leader") {
		t.Fatalf("recovered while there is a leader: %v %s", err, out)
	}

	for _, s := range []*harness.Sibling{leader, follower} {
		if err := errors.Join(s.Kill(), s.LoseDisk()); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "the survivor says what to do", afterFault, func(ctx context.Context) error {
		if err := survivor.Ready(ctx); err == nil || !strings.Contains(err.Error(), "agentctl group recover --survivor "+survivor.Address()) {
			return fmt.Errorf("it says: %w", err)
		}
		out, err := g.alpha.Agentctl(ctx, "group", "recover", "--dry-run")
		if err == nil && !strings.Contains(out, "would make a group of agent "+survivor.Address()+" alone") {
			err = errors.New(out)
		}
		return err
	})
	putSecret(t, g.beta, "disks", "two")
	if out, err := g.alpha.Agentctl(t.Context(), "group", "recover", "--survivor", survivor.Address()); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	eventually(t, "the survivor writes", afterFault, hasCopy(g.alpha, g.beta, "disks", "two"))
	if err := errors.Join(leader.Launch(), follower.Launch()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "all three are ready again", afterFault, all.AllReady)
	g.eventuallyWhole(t, afterFault)
	eventually(t, "gamma has kept the rule", afterFault, hasRule(g.gamma, "disks"))
	putSecret(t, g.beta, "disks", "three")
	eventually(t, "alpha follows beta", afterFault, hasCopy(g.alpha, g.beta, "disks", "three"))
}

// TestLeaveWithThreeAgents: a cluster of three agents leaves while one of them is down. The two that are up begin a group
// under the new key; the third comes to it with the disk of the old one, and all three join again.
func TestLeaveWithThreeAgents(t *testing.T) {
	g := joined(t)
	g.cleanUp(t, "left3")
	g.cleanUp(t, "kept3")
	all := three(t, g)
	putSecret(t, g.alpha, "left3", "one")
	apply(t, g.alpha, rule("left3", "left3"))
	eventually(t, "beta has a copy", afterFault, hasCopy(g.beta, g.alpha, "left3", "one"))
	putSecret(t, g.beta, "kept3", "one")
	apply(t, g.beta, rule("kept3", "kept3"))
	eventually(t, "alpha has a copy", afterFault, hasCopy(g.alpha, g.beta, "kept3", "one"))
	before := g.alphaKey(t)
	down := all.Agents[(leaderOf(t, all).Index+1)%3]
	if err := down.Stop(); err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() {
		if ctx := lasting(t); g.whole(ctx) != nil {
			if out, err := g.Agentctl(ctx, "join", "--context", "alpha", "--peer-context", "beta"); err != nil {
				t.Errorf("bring alpha back: %v\n%s", err, out)
			}
			g.eventuallyWholeAgain(t)
		}
	})
	t.Log(agentctl(t, g, "leave", "--context", "alpha"))
	for _, c := range []*harness.Cluster{g.beta, g.gamma} {
		eventually(t, "alpha is not listed in "+c.Name, afterFault, absent(c, harness.Clusters(), "", "alpha"))
		eventually(t, "its copy is an orphan in "+c.Name, afterFault, isOrphan(c, "left3"))
	}
	eventually(t, "its own copies are orphans", afterFault, isOrphan(g.alpha, "kept3"))
	eventually(t, "the two that are up are ready", afterFault, func(ctx context.Context) error {
		for _, s := range all.Agents {
			if s != down {
				if err := s.Ready(ctx); err != nil {
					return fmt.Errorf("agent %d: %w", s.Index, err)
				}
			}
		}
		return nil
	})
	eventually(t, "one of them leads", afterFault, func(ctx context.Context) error {
		_, err := all.Leader(ctx)
		return err
	})
	if g.alphaKey(t) == before {
		t.Error("the key of alpha is the old one")
	}

	t.Log(agentctl(t, g, "join", "--context", "alpha", "--peer-context", "beta"))
	if err := down.Launch(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "all three are ready", afterFault, all.AllReady)
	g.eventuallyWholeAgain(t) // an earlier test may have had gamma removed, which alpha has not forgotten with the group
	eventually(t, "orphans are adopted again", afterFault, hasCopy(g.gamma, g.alpha, "left3", "one"))
	eventually(t, "on both sides", afterFault, hasCopy(g.alpha, g.beta, "kept3", "one"))
	leader := leaderOf(t, all)
	if err := leader.Kill(); err != nil {
		t.Fatal(err)
	}
	putSecret(t, g.beta, "kept3", "two")
	eventually(t, "the next leader goes on", afterFault, hasCopy(g.alpha, g.beta, "kept3", "two"))
	if err := leader.Launch(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "all three are ready again", afterFault, all.AllReady)
}

// alphaKey is the public key that alpha lists for itself, and the record of its agents has.
func (g *group) alphaKey(t *testing.T) (key string) {
	t.Helper()
	eventually(t, "alpha and its agents have one key", afterFault, func(ctx context.Context) error {
		u, err := get(ctx, g.alpha, harness.Clusters(), "", "alpha")
		if err != nil {
			return err
		}
		key, _, _ = unstructured.NestedString(u.Object, "spec", "mesh", "publicKey")
		record, err := g.alpha.Kube.CoreV1().Secrets(v1alpha1.PrivateNamespace(harness.Namespace)).Get(ctx, agentrecord.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if recorded := string(record.Data[agentrecord.Key]); key == "" || recorded != key {
			return fmt.Errorf("the record has key %q, and the Cluster object %q", recorded, key)
		}
		return nil
	})
	return key
}
