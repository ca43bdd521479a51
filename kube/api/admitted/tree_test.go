// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package admitted

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// TestTree: circles, several authors of one cluster, one that another answers for, and one whose author is gone.
func TestTree(t *testing.T) {
	t.Parallel()
	tree := NewTree("me", map[string][]string{
		"hub": {"me", "bad"}, "bad": {"hub"}, "made-up": {"bad"}, "more": {"made-up"}, "shared": {"bad", "hub"},
		"old": {v1alpha1.AdmittedBy("hub", "bad")}, "orphan": nil, "lost": {"orphan", "gone"}, "loop": {"pool"}, "pool": {"loop"},
	})
	for head, want := range map[string][]string{
		"bad": {"made-up", "more", "old"}, "hub": {"bad", "made-up", "more", "old", "shared"}, "more": nil, "orphan": nil, "loop": nil,
	} {
		if got := tree.Branch(head); !slices.Equal(got, want) {
			t.Errorf("the branch of %s is %v, want %v", head, got, want)
		}
	}
	got := fmt.Sprint(tree.Clusters())
	if want := "[{hub me 1} {bad hub 2} {shared hub 2} {made-up bad 3} {old bad 3} {more made-up 4} {loop  1} {lost  1} {orphan  1} {pool  1}]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestBranchesAreDisjointPaths: whatever a head admits, directly or by way of its own, its branch grows by what it invents and
// by nothing that another path leads to.
func TestBranchesAreDisjointPaths(t *testing.T) {
	t.Parallel()
	honest := []string{"a", "b", "c", "d"}
	rapid.Check(t, func(t *rapid.T) {
		by := map[string][]string{}
		for i, id := range honest { // each by one that comes before it
			by[id] = []string{append([]string{"me"}, honest[:i]...)[rapid.IntRange(0, i).Draw(t, "by")]}
		}
		by["bad"] = []string{rapid.SampledFrom(append([]string{"me"}, honest...)).Draw(t, "who admitted bad")}
		var invented []string
		for i := range rapid.IntRange(0, 5).Draw(t, "invented") {
			id := fmt.Sprintf("x%d", i)
			author := rapid.SampledFrom(append([]string{"bad"}, invented...)).Draw(t, "author")
			via := rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "via")
			by[id] = []string{v1alpha1.AdmittedBy(author, via)}
			invented = append(invented, id)
		}
		for _, author := range append([]string{"bad"}, invented...) { // what they say of others takes those over
			of := rapid.SampledFrom(honest).Draw(t, "of")
			by[of] = append(by[of], author)
		}
		if got := NewTree("me", by).Branch("bad"); !slices.Equal(got, invented) {
			t.Fatalf("the branch is %v, want %v of %v", got, invented, by)
		}
	})
}

// TestTreeOfDominators: whatever is said, a cluster is below those whose branch it is in, and below nobody else.
func TestTreeOfDominators(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		ids, by := []string{"me"}, map[string][]string{}
		for i := range rapid.IntRange(1, 12).Draw(t, "clusters") {
			ids = append(ids, fmt.Sprintf("c%02d", i))
		}
		for _, id := range ids[1:] {
			by[id] = rapid.SliceOfNDistinct(rapid.SampledFrom(ids), 0, 4, rapid.ID).Draw(t, "by")
		}
		tree := NewTree("me", by)
		above := map[string][]string{}
		for _, c := range tree.Clusters() {
			if c.Parent != "" && c.Parent != "me" {
				above[c.ClusterID] = append(slices.Clone(above[c.Parent]), c.Parent)
			}
		}
		for _, head := range ids[1:] {
			var below []string
			for id, heads := range above {
				if slices.Contains(heads, head) {
					below = append(below, id)
				}
			}
			slices.Sort(below)
			if branch := tree.Branch(head); !slices.Equal(branch, below) {
				t.Fatalf("the branch of %s is %v, and %v are below it: %v", head, branch, below, by)
			}
		}
	})
}

// TestAdoptedAreNobodysOwn: who admits the members of others, also nearer ones, does not have them below itself.
func TestAdoptedAreNobodysOwn(t *testing.T) {
	t.Parallel()
	is := func(by map[string][]string, want map[string]string) {
		t.Helper()
		for _, c := range NewTree("me", by).Clusters() {
			if parent, ok := want[c.ClusterID]; ok && c.Parent != parent {
				t.Errorf("%s is below %q, want %q, of %v", c.ClusterID, c.Parent, parent, by)
			}
		}
	}
	is(map[string][]string{"a": {"me"}, "b": {"a"}, "c": {"b", "bad"}, "bad": {"me"}, "x": {"bad"}}, map[string]string{"c": "me", "x": "bad", "b": "a"})
	is(map[string][]string{"h": {"me"}, "m": {"h"}, "z": {"h"}, "n": {"m", "z"}}, map[string]string{"n": "h"})
	is(map[string][]string{"h": {"me"}, "z": {"h"}, "bad": {"me"}, "x": {"bad/z"}, "y": {"x"}, "both": {"bad/z", "h/z"}},
		map[string]string{"x": "", "y": "x", "both": "me"})
	is(map[string][]string{"h": {"me"}, "old": {"h"}, "x": {"h/old", "me/old"}, "y": {"me/old", "bad"}, "bad": {"old"}},
		map[string]string{"x": "old", "y": "old"})
}

// BenchmarkTree is what it costs to find out who leads to whom.
func BenchmarkTree(b *testing.B) {
	for _, n := range []int{500, 4096} {
		for name, of := range map[string]func(i int) []string{
			"hub":   func(int) []string { return []string{"m0"} },
			"chain": func(i int) []string { return []string{fmt.Sprint("m", i-1), "m0"} },
			"back": func(i int) []string {
				return []string{fmt.Sprint("m", i-1), fmt.Sprint("m", min(n-1, i+1)), fmt.Sprint("m", n-i)}
			},
		} {
			by := map[string][]string{"m0": {"me"}}
			for i := 1; i < n; i++ {
				by[fmt.Sprint("m", i)] = of(i)
			}
			b.Run(fmt.Sprint(name, n), func(b *testing.B) {
				for b.Loop() {
					NewTree("me", by).Clusters()
				}
			})
		}
	}
}
