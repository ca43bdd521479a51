// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/syncrules"
	"github.com/roster-mesh/roster/syncrules/engine/problem"
	"github.com/roster-mesh/roster/syncrules/engine/selections"
)

// placesRoom has rules have so much for selections, and for copies.
func (w *world) placesRoom(places, copies int64) {
	w.kill()
	w.options = func(o *Options) { o.Places, o.Copies, o.Workers = places, copies, 1 }
	w.start()
}

// selection is what is counted of what a rule selects of a cluster, and whether that has ended.
func (w *world) selection(rule, cluster string) (takes int64, ended bool) {
	w.e.mu.Lock()
	defer w.e.mu.Unlock()
	of := selections.Of{Rule: rule, Cluster: cluster}
	return w.e.views.selections.Takes(of), w.e.views.selections.Ended(of)
}

// wantSelections checks what is counted of selections against what is held.
func (w *world) wantSelections() {
	w.t.Helper()
	w.e.mu.Lock()
	defer w.e.mu.Unlock()
	want := map[selections.Of]int64{}
	for id, views := range w.e.views.byPeer {
		for _, v := range views {
			for at, ent := range v.entries {
				for i, name := range ent.rules {
					want[selections.Of{Rule: name, Cluster: id}] += ent.takes(i, v.key(at))
				}
			}
		}
	}
	for name := range w.e.rules.byName {
		for id, places := range w.e.namespaces.SpreadsLocked(name) {
			want[selections.Of{Rule: name, Cluster: id}] += int64(places) * selections.PerPlace
		}
	}
	for of, n := range want {
		if got := w.e.views.selections.Takes(of); got != n {
			w.t.Errorf("%d are counted of %+v, want %d", got, of, n)
		}
	}
}

// A member has hundreds of rules copy what another one has under other names. Most of that is refused, and costs no memory, also after a restart.
// Those that others have of the same objects are made and change, and a rule that comes to ask for less is in force at once.
func TestRulesThatRenameAreBounded(t *testing.T) {
	inWorld(t, func(w *world) {
		const objects, rules = 100, 100
		w.placesRoom(1<<20, 1<<30)
		for i := range objects {
			w.peers[b].put(configMap(fmt.Sprint("object-", i), "1"))
		}
		before := heap()
		for i := range rules {
			w.setRule(by(a, i, moving(testRule(fmt.Sprint("bad-", i)), "name", fmt.Sprintf("bad-%d-{{ .Object.GetName }}", i))))
		}
		w.setRule(by(b, 1, testRule("home")))
		w.setRule(by(b, 1, moving(testRule("renamed"), "name", "good-{{ .Object.GetName }}")))
		for range 2 {
			w.settle()
			if took := heap() - before; took > 16<<20 {
				t.Errorf("it takes %d MiB", took>>20)
			}
			n := 0
			for k := range w.local.objects {
				if strings.HasPrefix(k.Name, "bad") {
					n++
				}
			}
			if most := 1 << 20 / selections.PerPlace; n < objects || n > most {
				t.Errorf("%d copies were made under other names, and there is room for %d", n, most)
			}
			for i := range objects {
				w.wantValue(cm(fmt.Sprint("object-", i)), "1")
				w.wantValue(cm(fmt.Sprint("good-object-", i)), "1")
			}
			w.wantReady("renamed", metav1.ConditionTrue, problem.ReasonSynced)
			w.wantSelections()
			w.kill()
			w.start()
		}
		w.settle()
		ended := ""
		for i := range rules {
			if name := fmt.Sprint("bad-", i); w.report(name).Conditions[0].Reason == problem.ReasonSourceTooLarge {
				ended = name
			}
		}
		if ended == "" {
			t.Fatal("no rule says that there is no room for what it selects")
		}
		if said := w.report(ended).Conditions[0].Message; !strings.Contains(said, "rules of cluster "+a+" have used up their share with objects of cluster "+b) ||
			!strings.Contains(said, "its copies stay as they are; narrow what the rule matches, or raise the memory limit") {
			t.Errorf("it says %q", said)
		}
		w.setRule(by(a, 0, moving(testRule(ended, "object-1"), "name", "narrow-{{ .Object.GetName }}")))
		w.settle()
		w.wantValue(cm("narrow-object-1"), "1")
		w.peers[b].put(configMap("object-1", "2"))
		w.settle()
		w.wantValue(cm("good-object-1"), "2")
		w.wantValue(cm("narrow-object-1"), "2")
		for i := range rules {
			w.e.DeleteRule(fmt.Sprint("bad-", i))
		}
		w.settle()
		w.wantSelections()
		w.checkIndexes()
	})
}

// The copies of a rule for which there is no room any more stay as they are, whatever becomes of their sources, and go on when there is.
func TestSelectionThatEndsKeepsItsCopies(t *testing.T) {
	inWorld(t, func(w *world) {
		w.placesRoom(256<<10, 1<<30)
		w.setRule(by(a, 0, testRule("a", "x0", "x1")))
		w.setRule(by(a, 0, moving(testRule("r"), "name", "to-{{ .Object.GetName }}")))
		for i := range 40 {
			w.peers[b].put(configMap(fmt.Sprint("x", i), "1"))
		}
		w.settle()
		w.wantValue(cm("to-x3"), "1")
		for i := range 1000 {
			w.peers[b].put(configMap(fmt.Sprint("y", i), "1"))
		}
		w.settle()
		w.wantReady("r", metav1.ConditionFalse, problem.ReasonSourceTooLarge)
		w.peers[b].remove(cm("x0"))
		w.peers[b].put(configMap("x1", "2"))
		w.settle()
		w.wantValue(cm("to-x0"), "1")
		w.wantValue(cm("to-x1"), "1")
		w.wantValue(cm("x1"), "2")
		w.wantGone(cm("x0"))
		for i := range 1000 {
			if w.local.find(cm(fmt.Sprint("to-y", i))) == nil {
				w.peers[b].remove(cm(fmt.Sprint("y", i)))
			}
		}
		time.Sleep(2 * time.Hour)
		w.settle()
		w.wantReady("r", metav1.ConditionTrue, problem.ReasonSynced)
		w.wantValue(cm("to-x1"), "2")
		w.wantSelections()
	})
}

// Rules that copy into many namespaces are bounded by the places that they have there, also where more namespaces come to be selected.
func TestRulesThatSpreadAreBounded(t *testing.T) {
	inWorld(t, func(w *world) {
		w.placesRoom(256<<10, 1<<30)
		w.labelMany("ns", 10, pulls())
		for i := range 20 {
			w.setRule(by(a, 0, spreading(moving(testRule(fmt.Sprint("bad-", i), "x"), "name", fmt.Sprint("bad-", i)))))
		}
		w.setRule(by(b, 1, spreading(testRule("good", "x"))))
		w.peers[b].put(configMap("x", "1"))
		w.settle()
		ended := func() (n int) {
			for i := range 20 {
				if _, is := w.selection(fmt.Sprint("bad-", i), b); is {
					n++
				}
			}
			return n
		}
		first := ended()
		if first == 0 || first == 20 {
			t.Errorf("%d of 20 have ended", first)
		}
		w.wantValue(in("ns09", "x"), "1")
		w.wantSelections()
		w.labelMany("more", 10, pulls())
		w.settle()
		if n := ended(); n <= first {
			t.Errorf("of twice as many places %d have ended, as before", n)
		}
		w.wantValue(in("more09", "x"), "1")
		w.wantSelections()
		narrow := by(b, 1, spreading(testRule("good", "x")))
		narrow.Spec.TargetNamespaces.MatchLabels["of"] = "none"
		w.setRule(narrow)
		w.settle()
		if takes, _ := w.selection("good", b); takes != selections.PerRule {
			t.Errorf("for no namespaces %d are counted", takes)
		}
		w.setRule(by(b, 1, spreading(testRule("good", "x"))))
		w.settle()
		if takes, _ := w.selection("good", b); takes != selections.PerRule+20*selections.PerPlace {
			t.Errorf("for 20 namespaces %d are counted", takes)
		}
		w.wantSelections()
		w.checkIndexes()
	})
}

// However many rules ask for the same copy, it is made, by some of each author. It stays when all those are gone that made it, while nothing is known of
// the cluster for others that ask for it, and these take their places.
func TestManyRulesForOneCopy(t *testing.T) {
	inWorld(t, func(w *world) {
		long := strings.Repeat("bad", 60)
		for i := range 100 {
			r := testRule(fmt.Sprintf("%s-%02d", long, i), "x")
			r.Spec.RuleDeletionPolicy = v1alpha1.DeletionDelete
			w.setRule(by(a, i, r))
		}
		w.setRule(by(b, 1000, testRule("good", "x")))
		w.setRule(by(b, 1001, testRule("zulu", "x")))
		w.peers[b].put(configMap("x", "1"))
		w.settle()
		w.wantValue(cm("x"), "1")
		made := syncrules.MadeBy(w.local.find(cm("x")))
		if len(made) != maxMakers || made[maxMakers-1] != "good" || made[0] != long+"-00" {
			t.Errorf("it is made by %d rules: %v", len(made), made)
		}
		w.kill()
		w.peers[b].cut(errUnavailable())
		for _, name := range made {
			delete(w.rules, name)
		}
		w.start()
		w.settle()
		w.wantValue(cm("x"), "1")
		w.peers[b].cut(nil)
		w.settle()
		w.peers[b].put(configMap("x", "2"))
		w.settle()
		w.wantValue(cm("x"), "2")
		w.wantOwner(cm("x"), b, false)
	})
}

// A rule of somebody else's that comes first by name or by age, and selects the same, takes no place from a rule.
func TestRuleNamedFirstTakesNoRoom(t *testing.T) {
	inWorld(t, func(w *world) {
		w.placesRoom(1<<20, 1<<30)
		for i := range 500 {
			w.peers[b].put(configMap(fmt.Sprint("o", i), "1"))
		}
		w.setRule(by(b, 1, moving(testRule("renamed"), "name", "good-{{ .Object.GetName }}")))
		w.settle()
		w.wantReady("renamed", metav1.ConditionTrue, problem.ReasonSynced)
		before, _ := w.selection("renamed", b)
		w.setRule(by(a, 0, testRule("aaa")))
		w.settle()
		if now, _ := w.selection("renamed", b); now != before {
			t.Errorf("beside another rule it takes %d, and before %d", now, before)
		}
		w.peers[b].put(configMap("o1", "2"))
		w.settle()
		w.wantValue(cm("good-o1"), "2")
	})
}

// What ends is let go, also where the cluster cannot be listed anew: what is held never becomes more than there is room for, and nobody else's rule ends.
func TestWhatEndsIsLetGo(t *testing.T) {
	inWorld(t, func(w *world) {
		const most = 1 << 20
		w.placesRoom(most, 1<<30)
		var namespaces []string
		for i := range 6 {
			namespaces = append(namespaces, fmt.Sprint("n", i))
		}
		for _, ns := range append(slices.Clone(namespaces), "third") {
			w.peers[a].addNamespace(ns)
			w.peers[b].addNamespace(ns)
			w.local.addNamespace(ns)
		}
		put := func(id, ns, name string) {
			o := configMap(name, "1")
			o.SetNamespace(ns)
			w.peers[id].put(o)
		}
		w.setRule(by(b, 1, moving(inNamespaces(testRule("honest"), "third"), "name", "good-{{ .Object.GetName }}")))
		for i := range 200 {
			put(b, "third", fmt.Sprint("o", i))
		}
		w.setRule(by(a, 1, inNamespaces(testRule("aaa"), namespaces...)))
		for i, ns := range namespaces {
			w.setRule(by(a, 100-10*i, moving(inNamespaces(testRule(fmt.Sprint("bad-", i)), ns), "name", fmt.Sprint("new-", i, "-{{ .Object.GetName }}"))))
			for k := range 300 {
				put(a, ns, fmt.Sprint("bad", k))
			}
			w.settle()
			w.peers[a].mu.Lock()
			w.peers[a].closed = map[string]bool{ns: true}
			w.peers[a].mu.Unlock()
		}
		for range 3 {
			held, ended := int64(0), 0
			for i := range namespaces {
				takes, is := w.selection(fmt.Sprint("bad-", i), a)
				if held += takes; is {
					ended++
				}
			}
			if held > most || ended == 0 {
				t.Errorf("%d are held of %d, and %d have ended", held, most, ended)
			}
			time.Sleep(10 * time.Minute)
			w.settle()
		}
		put(b, "third", "one-more")
		w.settle()
		w.wantReady("honest", metav1.ConditionTrue, problem.ReasonSynced)
		w.wantSelections()
	})
}
