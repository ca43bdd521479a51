// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package admissions_test

import (
	"errors"
	"log/slog"
	"strconv"
	"testing"
	"time"

	"github.com/roster-mesh/roster/agent/admissions"
	"github.com/roster-mesh/roster/agent/agenttest"
	"github.com/roster-mesh/roster/agent/payload"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/mesh/trust"
	"github.com/roster-mesh/roster/replica"
)

// swapEdge is a swap by which e becomes an edge.
func (g *group) swapEdge(a, e *member) {
	g.t.Helper()
	if err := a.trust.PinEdge(e.id, e.pin().PublicKey); err != nil {
		g.t.Fatal(err)
	}
	if err := e.trust.Pin(a.id, a.pin().PublicKey); err != nil {
		g.t.Fatal(err)
	}
	a.mesh.RetryNow(e.id)
}

// edges lists who takes a cluster for an edge.
func (g *group) edges(id string) (in []string) {
	for _, m := range g.members {
		if m.trust.IsEdge(id) {
			in = append(in, m.id)
		}
	}
	return in
}

// TestEdge: all take a newcomer for an edge, it does so itself, and nobody takes whom it swaps with. Once a full member admits it as one,
// it is that everywhere, and so is whom it has admitted.
func TestEdge(t *testing.T) {
	bubble(t, func(t *testing.T, g *group) {
		hub := g.hub(4, false)
		e := g.add("edge", false)
		g.swapEdge(hub, e)
		g.whole(2*soon, "the edge")
		if got := g.edges("edge"); len(got) != 5 {
			t.Errorf("it is an edge in %v", got)
		}
		n := g.add("newcomer", false)
		g.swap(e, n)
		time.Sleep(time.Minute)
		for _, m := range g.members[:4] {
			if m.trust.IsPeer(n.id) {
				t.Errorf("%s takes whom the edge admits", m.id)
			}
		}
		if err := g.members[1].trust.Pin(e.id, e.pin().PublicKey); err != nil {
			t.Fatal(err)
		}
		g.whole(2*time.Minute, "the edge is a full member")
		if got := g.edges("edge"); len(got) != 0 {
			t.Errorf("it is an edge in %v", got)
		}
	})
}

// TestStolenKeyMakesNoEdges: whoever has the key of the only member that admitted the others admits each again, as an edge. Nobody is one, and
// a cluster that joins later learns from another member that they are not. Then it takes back all that it has admitted.
func TestStolenKeyMakesNoEdges(t *testing.T) {
	bubble(t, func(t *testing.T, g *group) {
		hub := g.hub(4, false)
		for _, m := range g.members[1:4] {
			data, err := payload.EncodeAdmission(trust.Admission{PublicKey: m.pin().PublicKey, Edge: true})
			if err != nil {
				t.Fatal(err)
			}
			hub.publish(payload.AdmissionKey(m.id), data)
		}
		time.Sleep(soon)
		n := g.add("newcomer", false)
		g.swap(g.members[1], n)
		g.whole(10*time.Second, "a newcomer")
		time.Sleep(soon)
		for _, m := range g.members {
			if got := g.edges(m.id); len(got) != 0 {
				t.Errorf("%s is an edge in %v", m.id, got)
			}
			if m != hub {
				hub.publish(payload.AdmissionKey(m.id), nil)
			}
		}
		time.Sleep(soon)
		for _, m := range g.members {
			if got := g.edges(m.id); len(got) != 0 {
				t.Errorf("%s is an edge in %v", m.id, got)
			}
		}
	})
}

// TestEdgeOfAMemberThatLeaves: who joins later learns that a cluster is an edge, also where the member that admitted it has left.
func TestEdgeOfAMemberThatLeaves(t *testing.T) {
	bubble(t, func(t *testing.T, g *group) {
		g.hub(4, false)
		e := g.add("edge", false)
		leaver := g.members[3]
		g.swapEdge(leaver, e)
		g.whole(2*soon, "the edge")
		leave, err := leaver.replica.SignLeave(agenttest.PublicKey("next"), leaver.id, 1)
		if err != nil {
			t.Fatal(err)
		}
		leaver.mesh.Broadcast(leave.Message())
		time.Sleep(soon)
		leaver.end()
		n := g.add("newcomer", false)
		g.swap(g.members[1], n)
		g.whole(10*time.Second, "a newcomer")
		for _, m := range g.members {
			if m != leaver && m != e && !m.trust.IsEdge(e.id) {
				t.Errorf("it is a full member in %s", m.id)
			}
		}
	})
}

// TestBusyEdge: an edge publishes so often that its entry comes to a newcomer before what the member says that it swapped with. It is an edge
// there, too, and to whom the newcomer admits.
func TestBusyEdge(t *testing.T) {
	bubble(t, func(t *testing.T, g *group) {
		hub := g.hub(4, false)
		e := g.add("edge", false)
		g.swapEdge(hub, e)
		g.whole(2*soon, "the edge")
		stop, stopped := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(stopped)
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				case <-time.After(20 * time.Millisecond):
				}
				c := agenttest.Cluster(e.id, e.id)
				c.Labels, c.Status.SchemaVersion = map[string]string{"n": strconv.Itoa(n)}, v1alpha1.SchemaVersion
				data, err := payload.EncodeCluster(c)
				if err != nil {
					t.Error(err)
				}
				e.publish(payload.ClusterKey(e.id), data)
			}
		}()
		time.Sleep(soon)
		n := g.add("newcomer", false)
		g.swap(hub, n)
		time.Sleep(10 * time.Second)
		close(stop)
		<-stopped
		g.swap(n, g.add("next", false))
		g.whole(time.Minute, "all")
		if got := g.edges(e.id); len(got) != len(g.members) {
			t.Errorf("it is an edge in %v only", got)
		}
	})
}

// TestNobodyIsEarlyUnheard: a member vouches for others as one of an early version does only once its own entry says that it is one: not when
// it was just pinned, and not after a restart that has lost its entry.
func TestNobodyIsEarlyUnheard(t *testing.T) {
	for _, restarted := range []bool{false, true} {
		var a *admissions.Admissions
		pinned := func(p trust.Pin) {
			if a != nil {
				a.Pinned(p.ClusterID)
			}
		}
		table := trust.New(trust.Pin{ClusterID: "self", PublicKey: agenttest.PublicKey("self")}, trust.Options{Pinned: pinned})
		r, err := replica.New(replica.Options{Self: "self", PrivateKey: agenttest.Key("self"), Epoch: 1, Keyring: table})
		if err != nil {
			t.Fatal(err)
		}
		pin := func() {
			if err := table.Pin("h", agenttest.PublicKey("h")); err != nil {
				t.Fatal(err)
			}
		}
		if restarted {
			pin()
		}
		a = admissions.New("self", table, r, slog.New(slog.DiscardHandler))
		r.Subscribe(a.Changed)
		if a.Load(); !restarted {
			pin()
		}
		if err := table.Introduce("e", agenttest.PublicKey("e"), "h"); !errors.Is(err, trust.ErrNotAdmitted) {
			t.Errorf("restarted=%t: h vouches for whom it brings, and has not said that it is early: %v", restarted, err)
		}
		data, err := payload.EncodeCluster(agenttest.Cluster("h", "h"))
		if err != nil {
			t.Fatal(err)
		}
		msgs, err := agenttest.Signer(t, "h", agenttest.Key("h")).Publish(payload.ClusterKey("h"), replica.Live, data)
		if err == nil {
			_, _, err = r.Merge(msgs[0], "h")
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := table.Introduce("e", agenttest.PublicKey("e"), "h"); err != nil {
			t.Errorf("restarted=%t: h has said that it is early, and does not vouch: %v", restarted, err)
		}
	}
}
