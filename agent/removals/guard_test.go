// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package removals

import (
	"testing"

	"github.com/roster-mesh/roster/agent/agenttest"
	"github.com/roster-mesh/roster/mesh/trust"
	"github.com/roster-mesh/roster/replica/removalguard"
)

// TestOneRemovalMutesNobody: m removes the head of a branch and what is in it, of which all were met. Who stays is a member as before:
// what it orders takes effect, the removal of m, too.
func TestOneRemovalMutesNobody(t *testing.T) {
	table := trust.New(trust.Pin{ClusterID: "self", PublicKey: agenttest.PublicKey("self")}, trust.Options{})
	g := NewGuard(Options{
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
	removes := func(by, id string) bool {
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
