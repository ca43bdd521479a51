// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package admissions_test

import (
	"testing"
	"time"

	"github.com/roster-mesh/roster/agent/agenttest"
	"github.com/roster-mesh/roster/agent/payload"
	"github.com/roster-mesh/roster/mesh/trust"
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
