// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package inforce

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"pgregory.net/rapid"

	"github.com/roster-mesh/roster/syncrules/engine/place"
)

// everywhere is clusters that all rules read.
func everywhere(ids []string) Sources {
	return Sources{IDs: ids, Reads: func(int, int) (bool, int) { return true, 1 }}
}

// sum is how many watches are opened.
func (o Opened) sum() (n int) {
	for _, opened := range o {
		n += len(opened)
	}
	return n
}

// reads counts the sources at which all that a rule needs is opened.
func (o Opened) reads(r Rule, sources []string) (n int) {
	for _, id := range sources {
		if _, fits := without(o[id], r.Views, 0); fits {
			n++
		}
	}
	return n
}

// named are n clusters.
func named(prefix string, n int) (ids []string) {
	for i := range n {
		ids = append(ids, fmt.Sprint(prefix, i))
	}
	return ids
}

// A stolen key's rules name all the namespaces that they may, at each of fifty clusters, and came first. Rules of this cluster and of an
// honest one are read everywhere.
func TestWideRulesOfOneLeaveWatches(t *testing.T) {
	t.Parallel()
	const most = 4096
	sources := named("c", 50)
	rules := rulesOf("bad-0", MaxViews/256, 256)
	rules = append(rules, rulesOf("c0", 3, 10)...)
	rules = append(rules, rulesOf("", 1, 20)...)
	o := Choose(rules, everywhere(sources), most, admissions())
	if o.sum() != most {
		t.Errorf("%d watches are opened of %d", o.sum(), most)
	}
	for _, r := range rules[MaxViews/256:] {
		if n := o.reads(r, sources); n != len(sources) {
			t.Errorf("a rule of cluster %q with %d namespaces is read at %d of %d", r.Author, len(r.Views), n, len(sources))
		}
	}
}

// A member invents thousands of clusters that can be read, so that the rule of an honest one needs too much. It reads all honest
// clusters, which came last.
func TestInventedSourcesLeaveWatches(t *testing.T) {
	t.Parallel()
	const most = 4096
	honest := named("c", 20)
	sources := append(named("bad-", 4096), honest...)
	rules := append(rulesOf("bad-0", 1, 256), rulesOf("c0", 1, 50)...)
	o := Choose(rules, everywhere(sources), most, admissions())
	if n := o.reads(rules[1], honest); n != len(honest) || o.sum() != most {
		t.Errorf("it reads %d of %d; %d watches are opened", n, len(honest), o.sum())
	}
}

// All clusters publish the same rule: a watch serves all of them, and so there is room beside somebody who wants everything.
func TestEqualRulesShareWatches(t *testing.T) {
	t.Parallel()
	const most = 4096
	sources := named("c", 50)
	rules := rulesOf("bad-0", MaxViews/256, 256)
	for _, id := range sources {
		rules = append(rules, Rule{Author: id, Views: scopes(0, 40)})
	}
	o := Choose(rules, everywhere(sources), most, admissions())
	if n := o.reads(rules[len(rules)-1], sources); n != len(sources) || o.sum() != most {
		t.Errorf("they read %d of %d; %d watches are opened", n, len(sources), o.sum())
	}
}

// TestLawsOfWatches: all that there may be is opened and no more; nothing is opened that no rule needs; an author has all that it needs
// if that is no more than its branch's part; and this cluster has what it needs.
func TestLawsOfWatches(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		sources := named("c", rapid.IntRange(1, 8).Draw(t, "honest sources"))
		sources = append(sources, named("bad-", rapid.IntRange(0, 40).Draw(t, "bad sources"))...)
		var rules []Rule
		for i := range rapid.IntRange(0, 6).Draw(t, "inventions") {
			rules = append(rules, rulesOf(fmt.Sprint("bad-", i), rapid.IntRange(1, 4).Draw(t, "rules"), rapid.IntRange(1, 30).Draw(t, "namespaces"))...)
		}
		own := rulesOf("", rapid.IntRange(0, 2).Draw(t, "own"), 1)
		good := Rule{Author: "c0", Views: scopes(0, rapid.IntRange(1, 5).Draw(t, "of the honest"))}
		rules = append(append(rules, own...), good)
		readers := rapid.SliceOfN(rapid.Uint64(), len(rules), len(rules)).Draw(t, "reads")
		readers[len(rules)-1] = 1<<63 - 1
		for i := range rules { // with the same, they read the same
			rules[i].Asks = fmt.Sprint(readers[i])
		}
		reads := func(rule, source int) bool { return readers[rule]>>(source%64)&1 == 1 }
		most := 100 + 2*len(own)*len(sources)

		o := Choose(rules, Sources{sources, func(rule, source int) (bool, int) { return reads(rule, source), 1 }}, most, admissions())
		needed := map[string]map[place.Scope]bool{}
		n := 0
		for source, id := range sources {
			needed[id] = map[place.Scope]bool{}
			for rule, r := range rules {
				for _, s := range r.Views {
					needed[id][s] = needed[id][s] || reads(rule, source)
				}
			}
			for s, is := range needed[id] {
				if is {
					n++
				}
				if _, opened := o[id][s]; opened && !is {
					t.Fatalf("%v is opened at %s, and nobody needs it", s, id)
				}
			}
		}
		if o.sum() != min(n, most) {
			t.Fatalf("%d are opened of %d, where %d are needed", o.sum(), most, n)
		}
		for i, r := range rules {
			for source, id := range sources {
				if (r.Author == "" || i == len(rules)-1 && !strings.HasPrefix(id, "bad-")) && reads(i, source) && o.reads(r, []string{id}) == 0 {
					t.Fatalf("what the rule of %q needs of %s is not opened", r.Author, id)
				}
			}
		}
	})
}

// This cluster's own rules read what somebody invents, too, and leave half to others, and what they have no use for.
func TestOwnRulesLeaveWatches(t *testing.T) {
	t.Parallel()
	const most = 2000
	honest := named("c", 20)
	sources := append(named("bad-", 1000), honest...)
	rules := append(rulesOf("", 1, 20), rulesOf("c0", 1, 25)...)
	o := Choose(rules, everywhere(sources), most, admissions())
	if n := o.reads(rules[1], honest); n != len(honest) || o.sum() != most {
		t.Errorf("the rule of an honest cluster reads %d of %d; %d watches are opened", n, len(honest), o.sum())
	}
	if n := o.reads(rules[0], honest); n != len(honest) {
		t.Errorf("this cluster's own rule reads %d of %d", n, len(honest))
	}
}

// Watches counts what is wanted, and says of which clusters others are opened.
func TestWatchesAreChosenWhenTooMany(t *testing.T) {
	t.Parallel()
	kind := schema.GroupKind{Kind: "Secret"}
	s := scopes(0, 3)
	var w Watches
	w.Limit(4)
	w.Want("a", kind, 2, 1)
	w.Want("b", kind, 2, 1)
	if w.Due() || !w.Opens("b", s[0], false) || w.LeavesOut("a", s[0]) {
		t.Error("what fits is not opened")
	}
	w.Want("b", kind, 3, 2)
	if !w.Due() || w.Opens("b", s[2], false) || !w.Opens("a", s[0], true) || w.LeavesOut("b", s[2]) {
		t.Error("before it is chosen, what is open is to stay, and nothing is to be opened")
	}
	at := func(n int) map[place.Scope]struct{} {
		out := map[place.Scope]struct{}{}
		add(out, s[:n])
		return out
	}
	if others := w.Chosen(Opened{"a": at(2), "b": at(2)}); len(others) != 2 || w.Due() || !w.LeavesOut("b", s[2]) || !w.Opens("b", s[1], false) {
		t.Errorf("of %v others are opened", others)
	}
	w.Want("b", kind, 3, 2)
	if w.Due() {
		t.Error("what did not change is to be chosen anew")
	}
	w.Want("b", kind, 3, 3)
	if !w.Due() || !w.LeavesOut("b", s[2]) {
		t.Error("while rules change, what is closed is not said to be left out")
	}
	other := s[2]
	other.GVK.Kind = "Other"
	w.Want("b", other.GVK.GroupKind(), 1, 3)
	if w.LeavesOut("b", other) {
		t.Error("what was not looked at is said to be left out")
	}
	w.Want("b", other.GVK.GroupKind(), 0, 0)
	if others := w.Chosen(Opened{"a": at(2), "b": at(1)}); len(others) != 1 || !others["b"] || w.Opens("b", s[1], true) {
		t.Errorf("of %v others are opened", others)
	}
	if w.Limit(3); !w.Due() {
		t.Error("with less room the same is opened")
	}
	w.Limit(4)
	w.Want("a", kind, 0, 0)
	if others := w.Chosen(nil); !others["b"] || !w.Opens("b", s[2], false) || w.Due() {
		t.Errorf("of %v others are opened", others)
	}
	w.Want("a", kind, 9, 1)
	w.Opens("b", s[2], false)
	w.Want("a", kind, 0, 0)
	if !w.Due() {
		t.Error("what was left out for a moment is forgotten")
	}
}

// The most that members can have looked at: all rules that may be in force at as many sources as there can be, of which they read all or
// none; each author was admitted by the one before, or by one member. It is seen to end, and an honest one that came last has what it needs.
func TestChoosingEnds(t *testing.T) {
	t.Parallel()
	var rules []Rule
	for i := range MaxAllRules {
		rules = append(rules, Rule{Author: fmt.Sprint("bad-", i), Views: scopes(0, 2)})
	}
	honest := named("c", 20)
	rules = append(rules, rulesOf("c0", 1, 50)...)
	sources := append(named("bad-", 4096), honest...)
	chain := map[string]string{"bad-0": "me"}
	for i := range MaxAllRules {
		chain[fmt.Sprint("bad-", i+1)] = fmt.Sprint("bad-", i)
	}
	deep := Admissions{Root: "me", Share: branches, Parent: func(id string) string {
		if by, bad := chain[id]; bad {
			return by
		}
		return "me"
	}}
	for _, by := range []Admissions{admissions(), deep} {
		for _, all := range []bool{true, false} {
			for _, features := range []int{1, 32 * 64} {
				asked, began := 0, time.Now()
				o := Choose(rules, Sources{sources, func(rule, _ int) (bool, int) {
					asked++
					if rule == MaxAllRules {
						return true, 1
					}
					return all, features
				}}, 4096, by)
				t.Logf("%d watches were chosen in %s; it was asked %d times", o.sum(), time.Since(began), asked)
				if n := o.reads(rules[MaxAllRules], honest); n != len(honest) || o.sum() > 4096 || asked > maxLooks+MaxAllRules*fewLooks {
					t.Errorf("the honest rule reads %d of %d; %d watches are opened; it was asked %d times", n, len(honest), o.sum(), asked)
				}
			}
		}
	}
}

// All of 500 clusters publish the same rules, and perhaps this one, too. What they need fits, beside one that wants more
// than there is; also where one cluster has admitted them all, so that they are one branch, and where they do not read each source.
func TestManyEqualRulesAreLookedAtOnce(t *testing.T) {
	t.Parallel()
	sources := named("c", 500)
	hub := admissions()
	hub.Parent = func(id string) string {
		if id == "c0" || id == "bad-0" {
			return "me"
		}
		return "c0"
	}
	for what, by := range map[string]Admissions{"each admitted here": admissions(), "under a hub": hub} {
		for _, own := range []bool{false, true} {
			for _, fewer := range []int{1, 7} { // each so many does not read a source
				rules := rulesOf("bad-0", MaxViews/256, 256)
				authors := sources
				if own {
					authors = append([]string{""}, sources...)
				}
				for _, id := range authors {
					for i := range 4 {
						rules = append(rules, Rule{Author: id, Views: scopes(4*i, 4)})
					}
				}
				reads := func(rule, source int) (bool, int) {
					return fewer == 1 || rule < MaxViews/256 || source%fewer != 0, 1
				}
				most, read := 20_000, sources
				if fewer > 1 {
					read = slices.DeleteFunc(slices.Clone(sources), func(id string) bool { return slices.Index(sources, id)%fewer == 0 })
				}
				o := Choose(rules, Sources{sources, reads}, most, by)
				if n := o.reads(Rule{Views: scopes(0, 16)}, read); n != len(read) || o.sum() != most {
					t.Errorf("%s, own %v, not each %d: they read %d of %d; %d watches are opened", what, own, fewer, n, len(read), o.sum())
				}
			}
		}
	}
}
