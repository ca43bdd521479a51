// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package removals

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/roster-mesh/roster/agent/agenttest"
	"github.com/roster-mesh/roster/kube/api/v1alpha1/unconfirmed"
	"github.com/roster-mesh/roster/mesh/trust"
	"github.com/roster-mesh/roster/replica/removalguard"
)

// guarded is a guard of "self", which has pinned h, m, v and w, and x, y and z on the word of h. The function orders a removal.
func guarded(t *testing.T) (g *Guard, removes func(by, id string) bool) {
	t.Helper()
	table := trust.New(trust.Pin{ClusterID: "self", PublicKey: agenttest.PublicKey("self")}, trust.Options{})
	g = NewGuard(Options{
		ClusterID: "self", Key: agenttest.PublicKey("self"), Trust: table, Met: func(string) bool { return true },
		Members: func() (all []removalguard.Member) {
			for _, id := range []string{"h", "m", "v", "w", "x", "y", "z"} { // the branch of h keeps its form
				parent := map[string]string{"x": "h", "y": "h", "z": "h"}[id]
				if _, pinned := table.Key(id); pinned || id == "h" {
					all = append(all, removalguard.Member{ClusterID: id, Parent: parent})
				}
			}
			return all
		},
	})
	for _, id := range []string{"h", "m", "v", "w", "x", "y", "z"} {
		if err := table.Pin(id, agenttest.PublicKey(id)); err != nil {
			t.Fatal(err)
		}
	}
	removes = func(by, id string) bool {
		t.Helper()
		r, err := agenttest.Signer(t, by, agenttest.Key(by)).SignRemoval(id, agenttest.PublicKey(id), id, by, 1)
		if err != nil {
			t.Fatal(err)
		}
		s := g.Hold(r)
		if !s.Held {
			table.Remove(id, agenttest.PublicKey(id), nil, false)
		}
		return !s.Held
	}
	return g, removes
}

// TestOneRemovalMutesNobody: m removes the head of a branch and what is in it, of which all were met. Who stays is a member as before:
// what it orders takes effect, the removal of m, too.
func TestOneRemovalMutesNobody(t *testing.T) {
	g, removes := guarded(t)
	if !removes("m", "h") || !removes("m", "x") || removes("m", "y") || removes("m", "z") {
		t.Fatal("two take effect")
	}
	for _, r := range g.Again() {
		g.Hold(r)
	}
	if !removes("y", "m") {
		t.Error("y is a member, and may not remove m")
	}
}

// TestManyStatementsHideNone: however many statements are remembered, one of another author about what is held is decided on.
func TestManyStatementsHideNone(t *testing.T) {
	g, removes := guarded(t)
	if !removes("m", "v") || !removes("m", "w") || removes("m", "x") {
		t.Fatal("two take effect")
	}
	for i := range maxTried {
		g.tried[statement{pair{"x", strconv.Itoa(i)}, pair{"m", ""}}] = struct{}{}
	}
	if !removes("h", "x") {
		t.Error("what h orders is held")
	}
	if len(g.tried) > maxTried {
		t.Errorf("%d statements are remembered", len(g.tried))
	}
}

// TestEdgeRemovesNobody: what an edge orders is held, that this cluster is removed, too, and shown as such; it asks nobody for anything, and
// hides no removal of the same cluster by a full member. It stays held when the edge becomes a full member.
func TestEdgeRemovesNobody(t *testing.T) {
	g, removes := guarded(t)
	g.o.Refuses = func(string) bool { return true }
	if err := g.o.Trust.PinEdge("e", agenttest.PublicKey("e")); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"x", "self", "y"} {
		if removes("e", id) {
			t.Errorf("%s is removed", id)
		}
	}
	v := g.View(func(id string) string { return id })
	if states := unconfirmed.Parse(v.Message); v.Held || len(states) != 3 || states[0].State != unconfirmed.ByEdge || states[0].By != "e" {
		t.Errorf("it is shown as %+v", v)
	}
	if !removes("m", "y") {
		t.Error("who is no edge removes nobody")
	}
	if err := g.o.Trust.Pin("e", agenttest.PublicKey("e")); err != nil {
		t.Fatal(err)
	}
	if g.Pinned("e"); removes("e", "x") {
		t.Error("what it ordered as an edge takes effect")
	}
	if v := g.View(func(id string) string { return id }); !v.Held {
		t.Error("and asks nobody to confirm it")
	}
	if !removes("e", "v") {
		t.Error("as a full member it removes nobody")
	}
}

// TestEdgeHidesNothingHeld: an edge orders the removal of everybody, before or after a full member orders some that are held. It is
// that one who is shown, and a person is asked; the edge does not become who is shown when that one leaves.
func TestEdgeHidesNothingHeld(t *testing.T) {
	for _, first := range []bool{true, false} {
		g, removes := guarded(t)
		if err := g.o.Trust.PinEdge("e", agenttest.PublicKey("e")); err != nil {
			t.Fatal(err)
		}
		all := func(by string) (held int) {
			for _, id := range []string{"v", "w", "x", "y"} {
				if !removes(by, id) {
					held++
				}
			}
			return held
		}
		if first {
			all("e")
		}
		if held := all("m"); held != 2 {
			t.Fatalf("of four that m orders, %d are held", held)
		}
		shown := func(when string) {
			t.Helper()
			all("e")
			v := g.View(func(id string) string { return id })
			states := slices.DeleteFunc(unconfirmed.Parse(v.Message), func(s unconfirmed.Removal) bool { return s.State != unconfirmed.Held })
			if !v.Held || len(states) != 2 || states[0].By != "m" || states[1].By != "m" {
				t.Errorf("edge first: %t, %s: it is shown as %+v", first, when, v)
			}
		}
		shown("m is a member")
		g.o.Trust.Remove("m", agenttest.PublicKey("m"), nil, true)
		shown("m has left")
	}
}

// TestWhoIsGoneIsConfirmed: what an author ordered that has left, or was removed, is held. The person is told the command that carries it
// out, and it does.
func TestWhoIsGoneIsConfirmed(t *testing.T) {
	g, removes := guarded(t)
	leave, err := agenttest.Signer(t, "m", agenttest.Key("m")).SignLeave(nil, "m", 1)
	if err != nil {
		t.Fatal(err)
	}
	g.Hold(leave)
	g.o.Trust.Remove("m", agenttest.PublicKey("m"), nil, true)
	if removes("m", "v") {
		t.Fatal("who has left removes a member")
	}
	same := func(id string) string { return id }
	if v := g.View(same); !v.Held || !strings.Contains(v.Message, "if it was meant, agentctl removals confirm --by m.") {
		t.Errorf("of one that has left: %s", v.Message)
	}
	if !removes("h", "x") || removes("x", "w") {
		t.Fatal("who was removed removes a member")
	}
	g.Confirm([]trust.Name{{ClusterID: "x"}})
	v := g.View(same)
	if !strings.Contains(v.Message, "1 more are held for good, whose authors are no members") || !strings.Contains(v.Message, "agentctl removals confirm NAME/KEY") {
		t.Errorf("of one that was removed: %s", v.Message)
	}
	if all := unconfirmed.Parse(v.Message); len(all) != 2 || all[0].State != unconfirmed.Held || all[1].State != unconfirmed.Disputed {
		t.Errorf("agentctl reads %v", all)
	}
	for _, id := range []string{"v", "w"} {
		if got := g.Confirm([]trust.Name{{ClusterID: id, Fingerprint: trust.Fingerprint(agenttest.PublicKey(id))}}); len(got) != 1 || got[0].Standing.Held {
			t.Errorf("%d removals of %s are confirmed", len(got), id)
		}
	}
	for _, r := range g.Again() {
		if g.Hold(r).Held {
			t.Errorf("the removal of %s is held when it is confirmed", r.ClusterID)
		}
	}
	if v := g.View(same); v.Message != "" {
		t.Errorf("nothing is left, but %s", v.Message)
	}
}
