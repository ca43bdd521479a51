// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/syncrules"
	"github.com/roster-mesh/roster/syncrules/engine/place"
)

const (
	a = "a"
	b = "b"
)

func key(i int) place.Key {
	return place.Key{GroupKind: schema.GroupKind{Kind: "ConfigMap"}, Namespace: "default", Name: strconv.Itoa(i)}
}

func ruleWith(confirm string) *v1alpha1.ResourceSyncRule {
	r := &v1alpha1.ResourceSyncRule{ObjectMeta: metav1.ObjectMeta{Name: "r"}}
	if confirm != "" {
		r.Annotations = map[string]string{syncrules.AnnotationConfirmDeletions: confirm}
	}
	return r
}

// counts are those of a rule that has so many copies of each owner.
func counts(of map[string]int) Counts {
	c := Counts{Of: func(owner string) int { return of[owner] }, Asks: func(string) bool { return true }, Deletion: true}
	for _, n := range of {
		c.All += n
	}
	return c
}

func lack(g *Guard, owner string, from, to int) {
	for i := from; i < to; i++ {
		g.Lack(owner, key(i), false)
	}
}

// All copies of a rule that lack their sources stop it, a few of many do not; and it goes on when they are back.
func TestStopsAndGoesOn(t *testing.T) {
	g, now := New(ruleWith("")), time.Now()
	lack(&g, a, 0, 2)
	if change := g.Decide(counts(map[string]int{a: 10}), now); g.Stopped() || change.Rule {
		t.Fatalf("2 of 10 stop it: %+v", change)
	}
	lack(&g, a, 2, 10)
	change := g.Decide(counts(map[string]int{a: 10}), now)
	if !change.Rule || !g.StoppedAll() || !g.StoppedOf(b) || change.Absent != 10 || change.Copies != 10 {
		t.Fatalf("10 of 10 do not stop it: %+v", change)
	}
	text := g.Text("r", func(id string) string { return "cluster " + id })
	if !strings.Contains(text, "10 of 10 copies") || !strings.Contains(text, "agentctl guard confirm r --deletions=10 ") {
		t.Errorf("text %q", text)
	}
	for i := range 10 {
		if !g.Lacks(a, key(i)) {
			t.Errorf("%d does not count", i)
		}
		g.Clear(a, key(i))
	}
	if change := g.Decide(counts(map[string]int{a: 10}), now); !change.Rule || g.Stopped() || g.Any() || !g.Quiet() {
		t.Errorf("they are back, and it is stopped: %+v", change)
	}
}

// Too many copies of one owner among many stop those alone.
func TestStopsOneOwner(t *testing.T) {
	g, now := New(ruleWith("")), time.Now()
	lack(&g, a, 0, 10)
	change := g.Decide(counts(map[string]int{a: 10, b: 100}), now)
	if change.Rule || !slices.Equal(change.Owners, []string{a}) || !g.StoppedOf(a) || g.StoppedOf(b) || !slices.Equal(g.StoppedOwners(), []string{a}) {
		t.Fatalf("%+v", change)
	}
	if text := g.Text("r", func(id string) string { return id }); !strings.Contains(text, "10 of 10 copies from cluster a would") {
		t.Errorf("text %q", text)
	}
	if change := g.Decide(counts(map[string]int{a: 10, b: 100}), now); change.Rule || change.Owners != nil || change.Report {
		t.Errorf("nothing changed: %+v", change)
	}
	lack(&g, a, 10, 11)
	if change := g.Decide(counts(map[string]int{a: 11, b: 100}), now); change.Owners != nil || !change.Report {
		t.Errorf("one more is lacking: %+v", change)
	}
	c := counts(map[string]int{a: 10, b: 100})
	c.Deletion = false
	if change := g.Decide(c, now); !slices.Equal(change.Owners, []string{a}) || g.Stopped() || g.StoppedOwners() != nil {
		t.Errorf("a rule that deletes nothing is stopped: %+v", change)
	}
}

// Copies that somebody set aside count as lacking, unless the rule asks their owner for nothing.
func TestKeptCopiesCount(t *testing.T) {
	g, now := New(ruleWith("")), time.Now()
	lack(&g, a, 0, 3)
	g.Lack(a, key(3), true)
	asks := true
	c := counts(map[string]int{a: 3})
	c.Asks = func(string) bool { return asks }
	if g.Decide(c, now); !g.StoppedAll() {
		t.Error("who keeps one of four loses three")
	}
	g.Lack(a, key(3), false)
	g.Lack(a, key(3), true)
	kept := 0
	g.Each(func(owner string, k place.Key, isKept bool) {
		if isKept {
			kept++
		}
		if owner != a || isKept != (k == key(3)) {
			t.Errorf("%s of %s is kept: %t", k, owner, isKept)
		}
	})
	if kept != 1 {
		t.Errorf("%d are kept", kept)
	}
}

// A confirmation allows so many deletions once, and is used up when they are done.
func TestConfirmation(t *testing.T) {
	g, now := New(ruleWith("4")), time.Now()
	lack(&g, a, 0, 4)
	if change := g.Decide(counts(map[string]int{a: 4}), now); g.Stopped() || !change.Report || g.Confirmed() != 4 {
		t.Fatalf("four are confirmed: %+v", change)
	}
	for i := range 4 {
		g.Gone(a, key(i), false, now)
		if usedUp := g.Clear(a, key(i)); usedUp != (i == 3) {
			t.Errorf("after %d deletions it is used up: %t", i+1, usedUp)
		}
	}
	lack(&g, a, 10, 14)
	if g.Decide(counts(map[string]int{a: 4}), now); !g.StoppedAll() {
		t.Error("it counts twice")
	}
	if text := g.Text("r", func(id string) string { return id }); !strings.Contains(text, "=5 ") {
		t.Errorf("a number that is used up confirms nothing: %q", text)
	}
}

// A confirmation is told as used when the first copy goes: an agent that is killed then finds it used up.
func TestConfirmationIsToldWhenItBegins(t *testing.T) {
	r := ruleWith("4")
	c := confirmationOf(r)
	if c.told() != 0 || !c.allows(4) || c.told() != 4 {
		t.Fatalf("told %d", c.told())
	}
	r.Status.ConfirmedDeletions = int32(c.told())
	if again := confirmationOf(r); again.allows(2) {
		t.Error("it counts again after a restart")
	}
}

// Where live deletions count, those of a minute count together, and what is stopped goes on counting.
func TestLiveDeletions(t *testing.T) {
	g, now := New(ruleWith("")), time.Now()
	copies := 25
	gone := func(i int) {
		lack(&g, a, i, i+1)
		g.Decide(counts(map[string]int{a: copies}), now)
		if g.Stopped() {
			return
		}
		g.Gone(a, key(i), true, now)
		g.Clear(a, key(i))
		copies--
	}
	for i := range 5 {
		gone(i)
	}
	now = now.Add(2 * window)
	for i := 5; i < 25 && !g.Stopped(); i++ {
		gone(i)
	}
	if !g.Stopped() || copies != 1 {
		t.Errorf("%d copies are left, stopped: %t", copies, g.Stopped())
	}
	now = now.Add(time.Hour)
	if g.Decide(counts(map[string]int{a: copies}), now); !g.Stopped() {
		t.Error("the time alone lets it go on")
	}
}

func TestJudge(t *testing.T) {
	g := New(ruleWith(""))
	if g.Judged(a) || !g.Judge(a) || g.Judge(a) || !g.Judged(a) {
		t.Error("the first time is not told from others")
	}
	if g.Doubt(a); g.Judged(a) {
		t.Error("it is in doubt")
	}
	lack(&g, a, 0, 2)
	if g.Recount(a); g.Any() {
		t.Error("it is to be counted anew")
	}
}

// An edit of what a stopped rule selects makes it suspect; another edit leaves all that is counted.
func TestInherit(t *testing.T) {
	old, now := New(ruleWith("")), time.Now()
	old.Judge(a)
	lack(&old, a, 0, 10)
	old.Decide(counts(map[string]int{a: 10}), now)
	same, edited := New(ruleWith("")), New(ruleWith("10"))
	same.Inherit(&old, true)
	edited.Inherit(&old, false)
	if !same.Stopped() || same.Suspect() || !same.Judged(a) || !same.Any() || !same.SameConfirmation(&old) {
		t.Errorf("another edit: %+v", same)
	}
	if !edited.Stopped() || !edited.Suspect() || edited.Judged(a) || edited.Any() || edited.SameConfirmation(&old) {
		t.Errorf("an edit of the selection: %+v", edited)
	}
	lack(&edited, a, 0, 10)
	c := counts(map[string]int{a: 10})
	c.Deletion, c.Edit = false, true
	if edited.Decide(c, now); edited.Stopped() {
		t.Error("ten are confirmed")
	}
	edited.Trust()
	if edited.Suspect() {
		t.Error("it is trusted again")
	}
}

// An agent that starts believes what the status of a stopped rule says.
func TestStatusMakesSuspect(t *testing.T) {
	r := ruleWith("")
	r.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: Reason}}
	if g := New(r); !g.Suspect() || g.Stopped() {
		t.Errorf("guard %s", fmt.Sprint(g))
	}
}

// What goes missing while confirmed deletions are under way is not confirmed.
func TestConfirmationIsNotExceeded(t *testing.T) {
	c := confirmation{count: 5}
	for _, step := range []struct {
		absent, spent int
		want          bool
	}{{5, 0, true}, {3, 2, true}, {4, 2, false}, {2, 3, true}} {
		c.spent = step.spent
		if got := c.allows(step.absent); got != step.want {
			t.Errorf("%d absent after %d: %t", step.absent, step.spent, got)
		}
	}
}
