// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"pgregory.net/rapid"

	"github.com/roster-mesh/roster/replica/shares"
	"github.com/roster-mesh/roster/syncrules/engine/inforce"
	"github.com/roster-mesh/roster/syncrules/engine/place"
)

// admitted has who admitted whom, as an agent does.
func admitted(parents map[string]string) inforce.Admissions {
	parent := func(id string) string { return parents[id] }
	return inforce.Admissions{Root: "me", Parent: parent, Share: func(total int, wants map[string]int) map[string]int {
		return shares.Of(total, "me", parent, wants)
	}}
}

// ruleOf is a rule for so many namespaces.
func ruleOf(author, prefix string, namespaces int) inforce.Rule {
	r := inforce.Rule{Author: author}
	for i := range namespaces {
		r.Views = append(r.Views, place.Scope{GVK: schema.GroupVersionKind{Version: "v1", Kind: "Secret"}, Namespace: fmt.Sprint(prefix, "-", i)})
	}
	return r
}

// A member invents 4,096 clusters, most of which others of them admitted, and each has a rule for 256 namespaces. By the tree of
// admissions a sibling, whose rules came last, has all its 200 rules in force.
func TestInventionsShareByAdmissions(t *testing.T) {
	t.Parallel()
	const inventions = 4096
	parents := map[string]string{"good": "hub", "bad": "hub", "hub": "me"}
	var rules []inforce.Rule
	rule := func(author string, namespaces int) {
		rules = append(rules, ruleOf(author, fmt.Sprint(author, len(rules)), namespaces))
	}
	for i := range inventions {
		id, by := fmt.Sprint("bad-", i), "bad"
		if i >= 100 {
			by = fmt.Sprint("bad-", i/100)
		}
		parents[id] = by
		rule(id, 256)
		rule(id, 1)
	}
	for range 200 {
		rule("good", 1)
	}
	began := time.Now()
	excess, costly := inforce.Decide(rules, admitted(parents), inforce.MaxAllViews)
	t.Logf("decided in %s", time.Since(began))
	good, bad, watches := inForce(rules, excess)
	if good != 200 || watches > inforce.MaxAllViews || !costly {
		t.Errorf("%d of 200 rules of the sibling are in force, and %d of the inventions, with %d watches in all", good, bad, watches)
	}
}

// inForce counts the rules in force of honest authors and of others, and what they watch.
func inForce(rules []inforce.Rule, excess []inforce.Excess) (good, bad, watches int) {
	watched := map[place.Scope]bool{}
	for i, r := range rules {
		switch {
		case excess[i] != inforce.None:
			continue
		case strings.HasPrefix(r.Author, "bad"):
			bad++
		default:
			good++
		}
		for _, s := range r.Views {
			watched[s] = true
		}
	}
	return good, bad, len(watched)
}

// underHub are so many honest clusters that one hub admitted, each with a rule for so many namespaces, which are the same for all or
// other ones for each. Before those, a sibling of the hub came with what it invented, each with eight rules for 256 namespaces.
func underHub(honest, namespaces int, same bool, inventions int) (rules []inforce.Rule, by inforce.Admissions) {
	parents := map[string]string{"hub": "me", "bad": "me"}
	for i := range 8 * inventions {
		id := fmt.Sprint("bad-", i/8)
		parents[id] = "bad"
		rules = append(rules, ruleOf(id, fmt.Sprint("bad-", i), 256))
	}
	for i := range honest {
		id, prefix := fmt.Sprint("c", i), ""
		if !same {
			prefix = id
		}
		parents[id] = "hub"
		rules = append(rules, ruleOf(id, prefix, namespaces))
	}
	return rules, admitted(parents)
}

// What is shared is used: clusters of which each one's share is less than its rule needs do not all have nothing, and a watch that
// all of them need is one. Neither is otherwise where somebody else's rules came before.
func TestManyHonestClustersShareWatches(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		honest, namespaces int
		same               bool
		inventions         int
		want               int // of the honest rules in force
	}{
		{honest: 409, namespaces: 20, want: 409},
		{honest: 410, namespaces: 20, want: 409},
		{honest: 500, namespaces: 20, want: 409},
		{honest: 33, namespaces: 256, want: 32},
		{honest: 500, namespaces: 20, same: true, inventions: 5, want: 500},
		{honest: 500, namespaces: 20, same: true, inventions: 400, want: 500},
		{honest: 500, namespaces: 20, inventions: 40, want: inforce.MaxAllViews / 2 / 20},
		{honest: 15, namespaces: 256, inventions: 400, want: 15},
	} {
		rules, by := underHub(c.honest, c.namespaces, c.same, c.inventions)
		excess, _ := inforce.Decide(rules, by, inforce.MaxAllViews)
		in, bad, watches := inForce(rules, excess)
		if in != c.want || watches > inforce.MaxAllViews {
			t.Errorf("%+v: %d honest rules are in force, and %d of the inventions, with %d watches", c, in, bad, watches)
		}
		if again, _ := inforce.Decide(rules, by, inforce.MaxAllViews); !slices.Equal(excess, again) {
			t.Errorf("%+v: the same rules have other places", c)
		}
	}
}

// TestBranchesHaveAsMuch: wherever clusters admitted each other, one of a rule that has no place is in no branch that has less than a
// sibling, by more than one rule.
func TestBranchesHaveAsMuch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		parents, ids := map[string]string{}, []string{"me"}
		var rules []inforce.Rule
		each := rapid.SampledFrom([]int{0, 1, 20, 90}).Draw(t, "namespaces")
		for i := range rapid.IntRange(2, 60).Draw(t, "clusters") {
			id := fmt.Sprint("c", i)
			parents[id] = rapid.SampledFrom(ids).Draw(t, "by")
			ids = append(ids, id)
			for j := range rapid.SampledFrom([]int{0, 1, 5, inforce.MaxRules}).Draw(t, "rules") {
				rules = append(rules, ruleOf(id, fmt.Sprint(id, "-", j), each))
			}
		}
		excess, _ := inforce.Decide(rules, admitted(parents), inforce.MaxAllViews)
		has, lacks, in := map[string]int{}, map[string]bool{}, 0
		for i, r := range rules {
			if excess[i] == inforce.None {
				in++
			}
			own := r.Author + " itself"
			parents[own] = r.Author
			for up := own; up != "me"; up = parents[up] {
				switch excess[i] {
				case inforce.None:
					has[up]++
				case inforce.AllRules, inforce.AllViews:
					lacks[up] = true
				case inforce.Rules, inforce.Views, inforce.Undecided:
				}
			}
		}
		if len(lacks) > 0 && in != min(inforce.MaxAllRules, inforce.MaxAllViews/max(1, each)) {
			t.Fatalf("%d rules are in force", in)
		}
		for b := range lacks {
			for sibling, n := range has {
				if parents[sibling] == parents[b] && n > has[b]+1 {
					t.Fatalf("%s has %d rules in force, and %s, which wants more, %d", sibling, n, b, has[b])
				}
			}
		}
	})
}

// Of clusters that have one admitted by the other, up to a few thousand, each is asked for on the way to the next.
func TestLongBranchIsCheap(t *testing.T) {
	t.Parallel()
	parents := map[string]string{}
	var rules []inforce.Rule
	for i := range 4096 {
		id := fmt.Sprint("c", i)
		parents[id] = fmt.Sprint("c", i-1)
		rules = append(rules, ruleOf(id, id, 20), ruleOf(id, id+"-more", 20))
	}
	parents["c0"] = "me"
	began := time.Now()
	excess, _ := inforce.Decide(rules, admitted(parents), inforce.MaxAllViews)
	took := time.Since(began)
	t.Logf("decided in %s", took)
	in := 0
	for i := range rules {
		if excess[i] == inforce.None {
			in++
		}
	}
	if in != inforce.MaxAllViews/20 || took > 10*time.Second {
		t.Errorf("%d rules are in force, after %s", in, took)
	}
}
