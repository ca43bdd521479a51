// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package trust

import (
	"fmt"
	"maps"
	"math/rand"
	"reflect"
	"testing"

	"github.com/roster-mesh/roster/mesh/trust/branch"
)

// TestWhoJoinsTheBranches: the branches that newcomers join are those that are made anew, whoever comes before whom, ends, and comes back.
func TestWhoJoinsTheBranches(t *testing.T) {
	joined := 0
	for seed := range int64(200) {
		r := rand.New(rand.NewSource(seed))
		g := newGraph(Pin{ClusterID: "self", PublicKey: someKey(-1)}, nil)
		name := func() string { return fmt.Sprint("x", r.Intn(20)) }
		for step := range 60 {
			had, members := g.branches, len(g.pins)
			switch id := name(); r.Intn(8) {
			case 0:
				g.pin(Pin{ClusterID: id, PublicKey: someKey(step), Admitted: true})
			case 1:
				g.unpin(id)
			case 2: // as an earlier run had it, in any order
				g.pin(Pin{ClusterID: id, PublicKey: someKey(step), Introducer: name(), Past: []Word{{Author: name(), For: "y"}}})
			case 3:
				parents := maps.Clone(g.arranged)
				if parents == nil || r.Intn(4) == 0 {
					parents = map[string]string{}
				}
				parents[id] = name()
				parents[name()] = "self"
				g.arranged, g.branches = parents, nil
			default:
				g.pin(Pin{ClusterID: id, PublicKey: someKey(step), Introducer: name()})
			}
			if had != nil && had == g.branches && len(g.pins) > members {
				joined++
			}
			all := []string{}
			for id := range g.pins {
				all = append(all, id)
			}
			for id := range g.arranged {
				if g.member(id) == "" {
					all = append(all, id)
				}
			}
			want, got := branch.New("self", all, g.parent, g.above, func(id string) bool { return g.member(id) != "" }), g.branchesNow()
			if !maps.Equal(got.Size, want.Size) || !maps.Equal(got.Below, want.Below) || !reflect.DeepEqual(got.Ways(), want.Ways()) {
				t.Fatalf("seed %d, step %d:\n%v\n%v\n%v\nand made anew:\n%v\n%v\n%v", seed, step, got.Size, got.Below, got.Ways(), want.Size, want.Below, want.Ways())
			}
		}
	}
	if joined < 1000 {
		t.Errorf("only %d have joined", joined)
	}
}
