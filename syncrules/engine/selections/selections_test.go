// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package selections

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"
)

const most = 1 << 20

type world struct {
	*Selections
	now time.Time
}

// newWorld shares among clusters as equals, and what one does not want goes to the others.
func newWorld() *world {
	return &world{Selections: New(most, func(total int, wants map[string]int) map[string]int {
		shares, left := map[string]int{}, slices.SortedFunc(maps.Keys(wants), func(a, b string) int { return wants[a] - wants[b] })
		for i, id := range left {
			shares[id] = total / (len(left) - i)
			total -= min(shares[id], wants[id])
		}
		return shares
	}), now: time.Unix(0, 0)}
}

// count is Count by a rule that is the newer the longer its name is. It returns for how long that one ends, 0 for not.
func (w *world) count(rule, author, cluster string, more int64) time.Duration {
	w.now = w.now.Add(time.Second)
	of := Of{rule, cluster}
	if ended := w.Count(of, Rule{author, time.Unix(int64(len(rule)), 0)}, more, w.now); slices.Contains(ended, of) {
		return w.of[rule][cluster].wait
	}
	return 0
}

// check compares what is counted with what is known.
func (w *world) check(t *testing.T) {
	t.Helper()
	all, authors := int64(0), map[string]int64{}
	for rule, clusters := range w.of {
		for cluster, x := range clusters {
			takes := perSelection + x.content()
			if w.Ended(Of{rule, cluster}) {
				takes = perSelection
			}
			if w.Ended(Of{Rule: rule}) {
				takes = 0
			}
			all += takes
			authors[x.Author] += takes
		}
	}
	for id, a := range w.authors {
		if a.takes != authors[id] {
			t.Errorf("%d are counted of author %s, want %d", a.takes, id, authors[id])
		}
	}
	if w.all != all || len(w.authors) != len(authors) {
		t.Errorf("%d are counted of %d authors, want %d of %d", w.all, len(w.authors), all, len(authors))
	}
}

func exists(Of) bool { return true }

// A selection without room ends, once, and takes nothing from then on. It is tried again later and later; an edit, or the end of its rule or cluster,
// has it tried at once.
func TestSelectionWithoutRoomEnds(t *testing.T) {
	w := newWorld()
	of := Of{"r", "good"}
	for _, want := range []time.Duration{5 * time.Minute, 10 * time.Minute, 20 * time.Minute, 40 * time.Minute, time.Hour, time.Hour} {
		ends := time.Duration(0)
		for n := 0; ends == 0 && n < 100; n++ {
			ends = w.count("r", "bad", "good", most/64)
		}
		if w.check(t); ends != want || !w.Ended(of) || w.all != perSelection {
			t.Fatalf("it ends for %v, want %v; %d are counted", ends, want, w.all)
		}
		if again := w.count("r", "bad", "good", most); again != 0 {
			t.Fatalf("it ends again, for %v", again)
		}
		w.count("r", "bad", "good", -w.Takes(of))
		if rules := w.Again(exists, w.now.Add(ends-time.Minute)); rules != nil {
			t.Fatalf("%v are tried too early", rules)
		}
		w.now = w.now.Add(ends + retry)
		if rules := w.Again(exists, w.now); !slices.Equal(rules, []string{"r"}) || w.Ended(of) {
			t.Fatalf("%v are tried again", rules)
		}
	}
	w.count("r", "bad", "good", 2*most)
	w.Edited("r")
	if w.check(t); w.Ended(of) || w.all < 2*most {
		t.Errorf("after an edit %d are counted: what is held counts", w.all)
	}
	w.count("r", "bad", "good", -2*most)
	w.count("r", "bad", "good", 2*most)
	w.count("r", "bad", "good", -2*most)
	w.Left("good")
	if w.check(t); len(w.of)+len(w.ended)+len(w.authors) > 0 {
		t.Errorf("after the cluster left %v, %v and %v are kept", w.of, w.ended, w.authors)
	}
}

// What has ended is not tried while there is no room for it, and forgotten when it does not exist any more.
func TestEndedSelectionsWaitForRoom(t *testing.T) {
	w := newWorld()
	w.count("old", "bad", "good", most*3/4)
	w.count("newer", "bad", "good", most/2)
	of := Of{"newer", "good"}
	w.count("newer", "bad", "good", -w.Takes(of))
	w.now = w.now.Add(2 * time.Hour)
	if rules := w.Again(exists, w.now); rules != nil || !w.Ended(of) {
		t.Errorf("%v are tried without room", rules)
	}
	w.count("old", "bad", "good", -most/2)
	w.now = w.now.Add(2 * time.Hour)
	if rules := w.Again(exists, w.now); !slices.Equal(rules, []string{"newer"}) {
		t.Errorf("%v are tried where there is room", rules)
	}
	w.count("newer", "bad", "good", most)
	w.count("newer", "bad", "good", -w.Takes(of))
	if rules := w.Again(func(Of) bool { return false }, w.now.Add(2*time.Hour)); rules != nil || w.of["newer"] != nil {
		t.Errorf("%v are tried, or %v is kept of a rule that is gone", rules, w.of["newer"])
	}
	w.check(t)
}

// Whatever rules a member has, select what others have and spread over namespaces, whether they came first or are named first: those of others have their
// part.
func TestRulesOfOthersHaveRoom(t *testing.T) {
	w := newWorld()
	bad := func(from int) {
		for i := range 256 {
			of := Of{fmt.Sprint("a-", from+i), "good"}
			if w.count(of.Rule, "bad", of.Cluster, PerPlace); i%2 == 0 {
				w.Spread(of, Rule{Author: "bad"}, 20*PerPlace, w.now)
			}
		}
	}
	bad(0)
	before := len(w.ended)
	if before < 10 || before > 250 {
		t.Errorf("of 256 selections %d have ended", before)
	}
	for n := range 100 {
		if ends := w.count("an-honest-rule", "good", "good", most/2/110); ends != 0 {
			t.Fatalf("after %d an honest selection has ended", n)
		}
	}
	if len(w.ended) <= before {
		t.Error("no other selection has ended for it")
	}
	bad(1000)
	if w.check(t); w.Ended(Of{"an-honest-rule", "good"}) || w.all > most {
		t.Errorf("in the end the honest one has ended, or %d are counted", w.all)
	}
}

// What rules of others select of one member, or of what it invents, ends before what they select of others does.
func TestObjectsOfOneMemberLeaveRoom(t *testing.T) {
	w := newWorld()
	w.count("old", "good", "good", most/4)
	w.count("a-newer-rule", "good", "other", most/4)
	for range 100 {
		w.count("old", "good", "bad", most/32)
	}
	if w.check(t); w.Ended(Of{"old", "good"}) || w.Ended(Of{"a-newer-rule", "other"}) || !w.Ended(Of{"old", "bad"}) {
		t.Errorf("%v have ended", w.ended)
	}
}

// Where there is no room, what the newest rules of the author select ends, whichever it is that takes more.
func TestNewestSelectionsEnd(t *testing.T) {
	w := newWorld()
	for _, rule := range []string{"r", "r2", "r33", "r444"} { // from old to new
		w.count(rule, "bad", "good", most/5)
	}
	w.count("r", "bad", "good", most/4)
	for _, rule := range []string{"r", "r2", "r33"} {
		if w.Ended(Of{rule, "good"}) {
			t.Errorf("of several the one of %s has ended", rule)
		}
	}
	if !w.Ended(Of{"r444", "good"}) {
		t.Error("that of the newest rule has not ended")
	}
}

// A rule that is gone, and comes back as another one's, counts for that one.
func TestRuleOfAnotherAuthor(t *testing.T) {
	w := newWorld()
	w.count("r", "bad", "good", 1000)
	w.Count(Of{"r", "good"}, Rule{}, -100, w.now)
	if w.check(t); w.authors["bad"].takes != 900+perSelection {
		t.Error("it counts for nobody before it is back")
	}
	w.count("r", "good", "good", 100)
	if w.check(t); w.authors["bad"] != nil || w.authors["good"].takes != 1000+perSelection {
		t.Error("it counts for who had the name before")
	}
}

// Thousands of rules that select one object each in hundreds of clusters end everywhere, and so take no more than there is, and little time.
func TestMoreSelectionsThanThereIsRoomFor(t *testing.T) {
	w := newWorld()
	began := time.Now()
	for c := range 100 {
		for r := range 500 {
			of := Of{fmt.Sprint("r", r), fmt.Sprint("c", c)}
			if w.Ended(of) {
				continue // it is not asked for
			}
			for _, ended := range w.Count(of, Rule{"bad", time.Unix(int64(r), 0)}, PerRule, w.now) {
				for c := range 100 { // it is let go
					if at := (Of{ended.Rule, fmt.Sprint("c", c)}); ended.Cluster == "" || at == ended {
						w.Count(at, Rule{"bad", time.Unix(int64(r), 0)}, -w.Takes(at), w.now)
					}
				}
			}
		}
	}
	n := 0
	for _, clusters := range w.of {
		n += len(clusters)
	}
	if w.check(t); w.all > most || n > most/perSelection {
		t.Errorf("%d selections take %d", n, w.all)
	}
	t.Logf("it took %v; %d have ended", time.Since(began), len(w.ended))
	if !w.Ended(Of{"r499", "c0"}) || w.Ended(Of{"r0", "c0"}) {
		t.Error("others than the newest have ended")
	}
	w.Edited("r499")
	if w.check(t); w.Ended(Of{"r499", "c0"}) {
		t.Error("an edit does not have it tried")
	}
}

// What a list brings counts while it is judged, and not twice.
func TestListsAreCountedWhileTheyAreJudged(t *testing.T) {
	counts := map[string]int64{}
	count := func(rule string, more int64) { counts[rule] += more }
	ended := func(rule string) bool { return rule == "b" && counts["b"] >= 5*step }
	var l List
	for i := range 96 {
		if l.Judge([]string{"a", "b"}[i%2], step/8) {
			l.Count(count, ended)
		}
	}
	if counts["a"] != 6*step || counts["b"] != 6*step {
		t.Errorf("%v are counted of a list", counts)
	}
	if l.Ended("a") || !l.Ended("b") || l.Ended("c") {
		t.Error("others than b are left out of the rest")
	}
	l.Judge("a", 1)
	l.Release(count)
	if counts["a"] != 0 || counts["b"] != 0 {
		t.Errorf("%v are left of it", counts)
	}
}
