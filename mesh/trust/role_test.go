// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package trust

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestEdgeAdmitsNobody: whom an edge admits is not pinned, nor whom it brings as a member of a version that signs nothing, and what it
// says of members makes nothing of them. It is no authority, and says nothing of itself. Once it is more than an edge, what it admits counts.
func TestEdgeAdmitsNobody(t *testing.T) {
	keys := testKeys(6)
	table := New(Pin{ClusterID: "self", PublicKey: keys[0]}, Options{Authorities: []Name{{ClusterID: "e"}}})
	if err := errors.Join(table.Pin("h", keys[1]), table.PinEdge("e", keys[2])); err != nil {
		t.Fatal(err)
	}
	table.Signs("h", true)
	if table.IsAuthority("e") || len(table.Strangers()) != 1 {
		t.Error("an edge is an authority")
	}
	if err := table.Introduce("n", keys[3], "e"); !errors.Is(err, ErrNotAdmitted) {
		t.Errorf("it vouches for whom it brings: %v", err)
	}
	table.Admit(Admission{Author: "e", ClusterID: "n", PublicKey: keys[3]})
	table.Admit(Admission{Author: "e", ClusterID: "e", PublicKey: keys[2]})
	for _, by := range []string{"h", "e"} {
		if err := table.Introduce("n", keys[3], by); !errors.Is(err, ErrNotAdmitted) {
			t.Errorf("whom it admits is pinned: %v", err)
		}
	}
	table.Admit(Admission{Author: "h", ClusterID: "f", PublicKey: keys[4], Edge: true})
	if err := table.Introduce("f", keys[4], "h"); err != nil {
		t.Fatal(err)
	}
	table.Admit(Admission{Author: "e", ClusterID: "f", PublicKey: keys[4]})
	table.Admit(Admission{Author: "f", ClusterID: "e", PublicKey: keys[2]})
	if !table.IsEdge("e") || !table.IsEdge("f") || table.IsEdge("h") {
		t.Error("two edges make more of each other")
	}
	if got := table.Words("f"); !slices.Equal(got, []Word{{Author: "h", Signed: true}}) {
		t.Errorf("f is a member on the word of %v", got)
	}
	if own, ok := table.OwnOf("e"); !ok || !own.Edge {
		t.Errorf("it is admitted as %+v", own)
	}
	table.Admit(Admission{Author: "h", ClusterID: "e", PublicKey: keys[2]})
	if table.IsEdge("e") || table.IsEdge("f") {
		t.Error("e is an edge, or what it said of f is not read, although h admits e as more")
	}
	if err := table.Introduce("n", keys[3], "e"); err != nil {
		t.Error(err)
	}
}

// TestWhoEndedMakesNothing: what a member says after its removal makes no more of an edge; what it said before it was pinned does.
func TestWhoEndedMakesNothing(t *testing.T) {
	keys := testKeys(4)
	table := New(Pin{ClusterID: "self", PublicKey: keys[0]}, Options{})
	if err := errors.Join(table.Pin("h", keys[1]), table.PinEdge("e", keys[2])); err != nil {
		t.Fatal(err)
	}
	table.Remove("h", keys[1], nil, false)
	table.Admit(Admission{Author: "h", ClusterID: "e", PublicKey: keys[2]})
	table.Admit(Admission{Author: "h", ClusterID: "n", PublicKey: keys[3]})
	if err := table.Introduce("n", keys[3], "h"); !table.IsEdge("e") || !errors.Is(err, ErrNotAdmitted) {
		t.Errorf("e is an edge: %t, and n is pinned: %v", table.IsEdge("e"), err)
	}
	table.Admit(Admission{Author: "later", ClusterID: "e", PublicKey: keys[2]})
	if err := table.Pin("later", keys[3]); err != nil || table.IsEdge("e") {
		t.Errorf("what a member had said before it was pinned is not read: %v", err)
	}
}

// TestNobodyMakesAnEdge: a full member stays it, whatever its only author, or a person here, says later, and whether that one takes
// all back or is removed. This cluster then tells newcomers of it itself.
func TestNobodyMakesAnEdge(t *testing.T) {
	keys := testKeys(4)
	table := New(Pin{ClusterID: "self", PublicKey: keys[0]}, Options{})
	table.Admit(Admission{Author: "h", ClusterID: "n", PublicKey: keys[2]})
	if err := errors.Join(table.Pin("h", keys[1]), table.Introduce("n", keys[2], "h")); err != nil {
		t.Fatal(err)
	}
	for _, do := range []func(){
		func() { table.Admit(Admission{Author: "h", ClusterID: "n", PublicKey: keys[2], Edge: true}) },
		func() { table.Withdraw("h", "n") },
		func() { _ = table.PinEdge("n", keys[2]) },
		func() { table.Remove("h", keys[1], nil, false) },
	} {
		if do(); table.IsEdge("n") {
			t.Fatal("it is an edge")
		}
		for _, w := range table.Words("n") {
			if w.Author == "h" && w.Signed {
				t.Error("who joins later would not know that it is more than an edge, and nobody here answers for that")
			}
		}
	}
}

// TestWhatItselfIs: a cluster is an edge for itself if all say so who may.
func TestWhatItselfIs(t *testing.T) {
	keys := testKeys(5)
	table := New(Pin{ClusterID: "self", PublicKey: keys[0]}, Options{})
	if err := errors.Join(table.Pin("h", keys[1]), table.Pin("i", keys[2]), table.PinEdge("e", keys[3])); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		author string
		key    int
		edge   bool
		want   bool
	}{
		{"stranger", 0, true, false},
		{"e", 0, true, false},  // which admits nobody
		{"i", 4, true, false},  // another key
		{"h", 0, true, true},   //
		{"i", 0, true, true},   //
		{"e", 0, false, true},  // which makes nothing more
		{"i", 0, false, false}, //
	} {
		table.Admit(Admission{Author: c.author, ClusterID: "self", PublicKey: keys[c.key], Edge: c.edge})
		if table.IsEdge("self") != c.want {
			t.Errorf("after %+v", c)
		}
	}
}

// TestApprovalKeepsTheRole: a person approves who comes back as an edge, maybe before anything is known of that, and makes no more of it.
func TestApprovalKeepsTheRole(t *testing.T) {
	keys := testKeys(4)
	for _, early := range []bool{true, false} {
		for _, edge := range []bool{true, false} {
			table := New(Pin{ClusterID: "self", PublicKey: keys[0]}, Options{})
			table.Signs("h", true)
			if err := table.Pin("h", keys[1]); err != nil {
				t.Fatal(err)
			}
			table.Remove("n", keys[3], nil, false)
			approve := func() { table.Approve([]Name{{"n", Fingerprint(keys[2])}}) }
			if early {
				approve()
				if err := table.Introduce("n", keys[2], "h"); err != nil {
					t.Fatal(err)
				}
			}
			table.Admit(Admission{Author: "h", ClusterID: "n", PublicKey: keys[2], Edge: edge})
			if err := table.Introduce("n", keys[2], "h"); !early && !errors.Is(err, ErrReserved) {
				t.Fatal(err)
			}
			approve()
			if own, ok := table.OwnOf("n"); !ok || own.Edge != edge || table.IsEdge("n") != edge {
				t.Errorf("approved early: %t, edge: %t, and it is %+v", early, edge, own)
			}
		}
	}
}

// TestRolesConverge: whatever is admitted, as an edge or more, and in whatever order it comes: who is an edge is what the admissions say by
// themselves, and each step in which somebody is pinned, or hears more, only makes fewer of them edges.
func TestRolesConverge(t *testing.T) {
	ids := []string{"a", "b", "c", "d", "e"}
	keys := testKeys(len(ids) + 1)
	key := func(id string) int { return slices.Index(ids, id) + 1 }
	rapid.Check(t, func(t *rapid.T) {
		var said []Admission
		for i := range rapid.IntRange(0, 14).Draw(t, "admissions") {
			author, id := rapid.SampledFrom(ids).Draw(t, "author"), rapid.SampledFrom(ids).Draw(t, "id")
			same := func(a Admission) bool { return a.Author == author && a.ClusterID == id }
			if author != id && !slices.ContainsFunc(said, same) {
				said = append(said, Admission{Author: author, ClusterID: id, PublicKey: keys[key(id)], Edge: rapid.Bool().Draw(t, fmt.Sprint("edge", i))})
			}
		}
		swapped := map[string]bool{"a": rapid.Bool().Draw(t, "a is an edge"), "b": rapid.Bool().Draw(t, "b is an edge")}
		full := map[string]bool{"a": !swapped["a"], "b": !swapped["b"]}
		member := map[string]bool{"a": true, "b": true}
		for range ids {
			for _, a := range said {
				member[a.ClusterID] = member[a.ClusterID] || full[a.Author]
				full[a.ClusterID] = full[a.ClusterID] || full[a.Author] && !a.Edge
			}
		}
		for range 2 {
			table := New(Pin{ClusterID: "self", PublicKey: keys[0]}, Options{})
			for id, edge := range swapped {
				pin := table.Pin
				if edge {
					pin = table.PinEdge
				}
				if err := pin(id, keys[key(id)]); err != nil {
					t.Fatal(err)
				}
			}
			order := rapid.Permutation(said).Draw(t, "order")
			was := map[string]bool{}
			for _, a := range slices.Concat(order, order) {
				table.Admit(a)
				for _, id := range ids {
					_ = table.Introduce(id, keys[key(id)], a.Author)
					if table.IsPeer(id) && !table.IsEdge(id) {
						was[id] = true
					} else if was[id] {
						t.Fatalf("%s was full", id)
					}
				}
			}
			for _, id := range ids {
				if table.IsPeer(id) != member[id] || member[id] && table.IsEdge(id) == full[id] {
					t.Fatalf("%s is pinned: %t, an edge: %t, want member %t, full %t after %v", id, table.IsPeer(id), table.IsEdge(id), member[id], full[id], order)
				}
			}
		}
	})
}
