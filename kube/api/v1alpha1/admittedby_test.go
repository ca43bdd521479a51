// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestAdmissionTree: circles, several authors of one cluster, one that another answers for, and one whose author is gone.
func TestAdmissionTree(t *testing.T) {
	t.Parallel()
	tree := NewAdmissionTree("me", map[string][]string{
		"hub": {"me", "bad"}, "bad": {"hub"}, "made-up": {"bad"}, "more": {"made-up"}, "shared": {"bad", "hub"},
		"old": {AdmittedBy("hub", "bad")}, "orphan": nil, "lost": {"orphan", "gone"}, "loop": {"pool"}, "pool": {"loop"},
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
			by[id] = []string{AdmittedBy(author, via)}
			invented = append(invented, id)
		}
		for _, author := range append([]string{"bad"}, invented...) { // what they say of others takes those over
			of := rapid.SampledFrom(honest).Draw(t, "of")
			by[of] = append(by[of], author)
		}
		if got := NewAdmissionTree("me", by).Branch("bad"); !slices.Equal(got, invented) {
			t.Fatalf("the branch is %v, want %v of %v", got, invented, by)
		}
	})
}
