// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package inforce

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/roster-mesh/roster/syncrules/engine/place"
)

// branches shares half of the total among the inventions of a bad member, and half among the others, as the tree of admissions does
// where this cluster admitted both; what the others leave is lent.
func branches(total int, wants map[string]int) map[string]int {
	bad, good := 0, 0
	for id, n := range wants {
		if strings.HasPrefix(id, "bad") {
			bad++
		} else {
			good += n
		}
	}
	shares := map[string]int{}
	for id := range wants {
		if shares[id] = total / 2; strings.HasPrefix(id, "bad") {
			shares[id] = (total - min(good, total/2)) / bad
		}
	}
	return shares
}

// admissions are those for which branches shares.
func admissions() Admissions {
	return Admissions{Root: "me", Share: branches, Parent: func(id string) string {
		if strings.HasPrefix(id, "bad-") {
			return "bad"
		}
		return "me"
	}}
}

// never is what is asked where nobody wants too much.
func never(t *testing.T) Admissions {
	return Admissions{
		Root:   "me",
		Parent: func(id string) string { t.Errorf("it is asked who admitted %s", id); return "" },
		Share:  func(int, map[string]int) map[string]int { t.Error("the shares are asked for"); return nil },
	}
}

// rulesOf are n rules of an author, each of so many namespaces of its own.
func rulesOf(author string, n, each int) (rules []Rule) {
	for i := range n {
		views := scopes(i*each, each)
		for j := range views {
			views[j].Namespace = author + views[j].Namespace
		}
		rules = append(rules, Rule{Author: author, Views: views})
	}
	return rules
}

// inForce counts the rules in force by author, and the watches that those of other clusters need.
func inForce(rules []Rule, excess []Excess) (of map[string]int, watches int) {
	of, open := map[string]int{}, map[place.Scope]bool{}
	for i, r := range rules {
		if excess[i] != None {
			continue
		}
		of[r.Author]++
		for _, s := range r.Views {
			open[s] = open[s] || r.Author != ""
		}
	}
	for _, others := range open {
		if others {
			watches++
		}
	}
	return of, watches
}

// A member invents 100 clusters, each with rules for all the watches that one may have. What came here later of an honest member
// is in force, and there are no more watches than there may be.
func TestInventionsShareWatches(t *testing.T) {
	t.Parallel()
	var rules []Rule
	for i := range 100 {
		rules = append(rules, rulesOf(fmt.Sprint("bad-", i), MaxViews/256, 256)...)
	}
	rules = append(rules, rulesOf("good", 200, 1)...)
	rules = append(rules, rulesOf("", 8, 256)...) // this cluster's own
	excess, costly := Decide(rules, admissions(), MaxAllViews)
	of, watches := inForce(rules, excess)
	if of["good"] != 200 || of[""] != 8 {
		t.Errorf("%d of 200 rules of the honest member are in force, and %d of 8 of this cluster", of["good"], of[""])
	}
	if own := 8 * 256; watches > MaxAllViews || !costly {
		t.Errorf("%d watches are open beside %d, costly is %t", watches, own, costly)
	}
	if first, second := excess[0], excess[1]; first != None || second != AllViews || watches <= MaxAllViews-256 {
		t.Errorf("the first rule of an invention has %d, and the second %d, with %d watches", first, second, watches)
	}
	again, _ := Decide(rules, admissions(), MaxAllViews)
	if !slices.Equal(excess, again) {
		t.Error("the same rules have other places")
	}
}

// A member invents 100 clusters, each with all the rules that one may have.
func TestInventionsShareRules(t *testing.T) {
	t.Parallel()
	var rules []Rule
	for i := range 100 {
		rules = append(rules, rulesOf(fmt.Sprint("bad-", i), MaxRules, 0)...)
	}
	rules = append(rules, rulesOf("good", 200, 1)...)
	rules = append(rules, rulesOf("", MaxRules, 1)...)
	excess, _ := Decide(rules, admissions(), MaxAllViews)
	of, _ := inForce(rules, excess)
	if of["good"] != 200 || of[""] != MaxRules {
		t.Errorf("%d of 200 rules of the honest member are in force, and %d of this cluster", of["good"], of[""])
	}
	sum := -of[""]
	for _, n := range of {
		sum += n
	}
	if each := (MaxAllRules - 200) / 100; sum != MaxAllRules || of["bad-0"] != each+1 || of["bad-99"] != each {
		t.Errorf("%d rules of others are in force, %d of the first invention and %d of the last", sum, of["bad-0"], of["bad-99"])
	}
	if x := excess[of["bad-0"]]; x != AllRules {
		t.Errorf("the next rule of the invention has %d", x)
	}
}

// Clusters whose rules need the same watches have them for one: nothing is shared. So it is below the totals.
func TestWhatIsThereIsNotShared(t *testing.T) {
	t.Parallel()
	var same, fewer []Rule
	for i := range 500 {
		same = append(same, Rule{Author: fmt.Sprint("c", i), Views: scopes(0, 200)})
	}
	for i := range MaxAllRules / MaxRules {
		fewer = append(fewer, rulesOf(fmt.Sprint("c", i), MaxRules, 2)...)
	}
	for _, rules := range [][]Rule{same, fewer} {
		excess, costly := Decide(rules, never(t), MaxAllViews)
		if looked := len(rules) * len(rules[0].Views); costly != (looked > few) {
			t.Errorf("to look at %d watches is costly: %t", looked, costly)
		}
		if of, _ := inForce(rules, excess); len(of) != len(slices.CompactFunc(slices.Clone(rules), func(a, b Rule) bool { return a.Author == b.Author })) {
			t.Errorf("rules of %d clusters are in force", len(of))
		}
	}
}

// TestLaws: the totals hold, each author has what it wants up to its share, and no rule takes a place from an older one of its author.
func TestLaws(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var rules []Rule
		for i := range rapid.IntRange(1, 20).Draw(t, "authors") {
			n, each := rapid.IntRange(0, 300).Draw(t, "rules"), rapid.SampledFrom([]int{0, 1, 8, 40}).Draw(t, "each")
			rules = append(rules, rulesOf(fmt.Sprint("bad-", i), n, each)...)
		}
		good := rapid.IntRange(0, MaxRules).Draw(t, "good")
		rules = append(rules, rulesOf("good", good, 8)...)
		excess, _ := Decide(rules, admissions(), MaxAllViews)
		of, watches := inForce(rules, excess)
		sum := 0
		for _, n := range of {
			sum += n
		}
		if sum > MaxAllRules || watches > MaxAllViews || of["good"] != good {
			t.Fatalf("%d rules and %d watches, %d of %d of the honest member", sum, watches, of["good"], good)
		}
		fewer, _ := Decide(rules[:len(rules)-good], admissions(), MaxAllViews)
		for i := range fewer {
			if i > 0 && rules[i].Author == rules[i-1].Author && fewer[i] == None && fewer[i-1] == AllRules {
				t.Fatalf("rule %d of %s has a place that an older one lacks", i, rules[i].Author)
			}
		}
	})
}

// BenchmarkDecide is the worst that other clusters can have looked at: all the rules that have a place, each for 256 namespaces, of few
// authors or of many.
func BenchmarkDecide(b *testing.B) {
	for _, authors := range []int{16, 256, 2048, 4096} {
		b.Run(fmt.Sprint("authors=", authors), func(b *testing.B) {
			var rules []Rule
			for i := range authors {
				rules = append(rules, rulesOf(fmt.Sprint("bad-", i), MaxAllRules/authors, 256)...)
			}
			for b.Loop() {
				Decide(rules, admissions(), MaxAllViews)
			}
		})
	}
}

// Rules also need watches here, for their copies: many for one at a source, where they have many kinds and target namespaces. These are
// bounded likewise, by author and in all, and a rule that lacks room here takes none elsewhere.
func TestWatchesHereAreBounded(t *testing.T) {
	t.Parallel()
	here := func(author string, n, each int) (rules []Rule) {
		for _, r := range rulesOf(author, n, each) {
			rules = append(rules, Rule{Author: author, Views: scopes(0, 1), Here: r.Views})
		}
		return rules
	}
	excess, costly := Decide(here("bad-0", 3, 1024), never(t), MaxAllViews)
	if !slices.Equal(excess, []Excess{None, None, Views}) || costly {
		t.Errorf("of one author: %v", excess)
	}
	var rules []Rule
	for i := range 20 {
		rules = append(rules, here(fmt.Sprint("bad-", i), 2, 1024)...)
	}
	rules = append(rules, here("good", 100, 4)...)
	rules = append(rules, here("", 2, 1024)...)
	const most = 2000
	excess, _ = Decide(rules, admissions(), most)
	open := map[place.Scope]bool{}
	for i, r := range rules {
		if excess[i] != None && !strings.HasPrefix(r.Author, "bad") {
			t.Fatalf("rule %d of %q is not in force: %d", i, r.Author, excess[i])
		}
		if excess[i] == None && r.Author != "" {
			for _, s := range r.Here {
				open[s] = true
			}
		}
	}
	if len(open) > most || len(open) <= 400 {
		t.Errorf("%d watches of others are open here", len(open))
	}
	both := append(rulesOf("bad-0", 1, 100), Rule{Author: "bad-0", Views: scopes(1000, 100), Here: scopes(1000, 300)}, Rule{Author: "c1", Views: scopes(2000, 100)})
	if excess, _ := Decide(both, admissions(), 250); !slices.Equal(excess, []Excess{None, AllViews, None}) {
		t.Errorf("beside a rule that does not fit here: %v", excess)
	}
}
