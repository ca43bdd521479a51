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
	"github.com/roster-mesh/roster/syncrules/engine/inforce"
	"github.com/roster-mesh/roster/syncrules/engine/problem"
)

// by makes a rule one of another cluster, that came here after so many seconds.
func by(author string, after int, r *v1alpha1.ResourceSyncRule) *v1alpha1.ResourceSyncRule {
	r.Labels = map[string]string{v1alpha1.LabelOwnerClusterID: author}
	r.CreationTimestamp = metav1.NewTime(time.Unix(int64(after), 0))
	return r
}

// Of one author the oldest rules are in force. The copies of one that is not are frozen, those of another author's rules are
// made, and when a rule goes the next one has its place.
func TestTooManyRules(t *testing.T) {
	inWorld(t, func(w *world) {
		w.setRule(by(a, 1000, testRule("young", "young")))
		w.peers[a].put(configMap("young", "1"))
		w.settle()
		w.wantValue(cm("young"), "1")
		for i := range inforce.MaxRules {
			w.setRule(by(a, i, testRule(fmt.Sprintf("old-%03d", i), fmt.Sprintf("x%03d", i))))
		}
		w.setRule(by(b, 2000, testRule("honest", "honest")))
		w.settle()
		w.wantReady("young", metav1.ConditionFalse, problem.ReasonTooManyRules)
		if m := w.report("young").Conditions[0].Message; !strings.Contains(m, "256 rules of cluster "+a) || !strings.Contains(m, "older rules come first") {
			t.Errorf("it says %q", m)
		}
		w.wantReady("old-255", metav1.ConditionTrue, problem.ReasonSynced)
		w.peers[a].put(configMap("young", "2"))
		w.peers[a].put(configMap("honest", "1"))
		w.settle()
		w.wantValue(cm("young"), "1")
		w.wantValue(cm("honest"), "1")
		w.peers[a].remove(cm("young"))
		w.settle()
		w.wantOwner(cm("young"), a, false)
		w.kill()
		w.start() // nothing else is decided after a restart
		w.wantReady("young", metav1.ConditionFalse, problem.ReasonTooManyRules)
		w.wantOwner(cm("young"), a, false)
		w.peers[a].put(configMap("young", "3"))
		delete(w.rules, "old-000")
		w.e.DeleteRule("old-000")
		w.settle()
		w.wantValue(cm("young"), "3")
		w.wantReady("young", metav1.ConditionTrue, problem.ReasonSynced)
	})
}

// Rules of 256 namespaces each open no more watches at a peer than may be, and none here for the rest.
func TestTooManyWatches(t *testing.T) {
	inWorld(t, func(w *world) {
		wide := func(n int) *v1alpha1.ResourceSyncRule {
			r := testRule(fmt.Sprintf("wide-%02d", n))
			r.Spec.Rules[0].Matches[0].Namespaces = nil
			for i := range 256 {
				r.Spec.Rules[0].Matches[0].Namespaces = append(r.Spec.Rules[0].Matches[0].Namespaces, fmt.Sprintf("n%d", 256*n+i))
			}
			return by(a, n, r)
		}
		for n := range 20 {
			w.setRule(wide(n))
		}
		w.setRule(by(b, 5000, testRule("honest")))
		w.peers[a].put(configMap("x", "1"))
		w.settle()
		w.wantValue(cm("x"), "1")
		const most = inforce.MaxViews + 1 // that of the honest rule
		if n := w.peers[a].open(); n != most {
			t.Errorf("%d watches are open at a peer, want %d", n, most)
		}
		if n := w.local.open(); n > most+2 { // namespaces, and objects in the way
			t.Errorf("%d watches are open here", n)
		}
		w.wantReady("wide-08", metav1.ConditionFalse, problem.ReasonTooManyRules)
		if m := w.report("wide-08").Conditions[0].Message; !strings.Contains(m, "2048 watches") {
			t.Errorf("it says %q", m)
		}
		w.cluster = w.cluster.DeepCopy()
		w.cluster.Labels = map[string]string{"tier": "core"}
		for n := range 8 { // they leave this cluster out: others have their places
			r := wide(n)
			r.Spec.Targets = &v1alpha1.ClusterSelector{LabelSelector: metav1.LabelSelector{MatchLabels: map[string]string{"tier": "edge"}}}
			w.setRule(r)
		}
		w.e.ClusterChanged()
		w.settle()
		w.wantReady("wide-00", metav1.ConditionTrue, problem.ReasonNotTargeted)
		if c := w.report("wide-08").Conditions[0]; c.Reason == problem.ReasonTooManyRules {
			t.Errorf("wide-08 has no place, although those of others are free: %s", c.Message)
		}
		w.wantReady("wide-16", metav1.ConditionFalse, problem.ReasonTooManyRules)
	})
}

// One member invents clusters, each with as many rules as one may have in force. An honest one's rule, which came last, is in
// force, also after a restart; and when others are said to have admitted them, rules share by that.
func TestTooManyRulesOfInventions(t *testing.T) {
	inWorld(t, func(w *world) {
		moved := false
		w.kill()
		w.options = func(o *Options) {
			o.Parent = func(id string) string {
				switch {
				case id == b || id == "bad":
					return here
				case moved && id == "bad-00":
					return "bad-01"
				}
				return "bad"
			}
		}
		const inventions = inforce.MaxAllRules/inforce.MaxRules + 1
		for i := range inventions {
			for j := range inforce.MaxRules {
				r := by(fmt.Sprintf("bad-%02d", i), j, testRule(fmt.Sprintf("bad-%02d-%03d", i, j), fmt.Sprintf("x%03d", j)))
				r.Generation = 1
				w.rules[r.Name] = r
			}
		}
		w.start()
		excess := func(name string) inforce.Excess {
			w.e.mu.Lock()
			defer w.e.mu.Unlock()
			return w.e.rules.byName[name].excess
		}
		w.setRule(by(b, 2000, testRule("honest", "honest")))
		if x := excess("honest"); x != inforce.Undecided { // thousands are not looked at for each
			t.Errorf("a rule that has just come has %d", x)
		}
		w.setRule(by(b, 2001, testRule("next", "next")))
		w.settle()
		edited := by(b, 2000, testRule("honest", "honest"))
		edited.Spec.RuleDeletionPolicy = v1alpha1.DeletionDelete
		w.setRule(edited)
		if x := excess("honest"); x != inforce.None {
			t.Errorf("a rule that was edited has %d", x)
		}
		edited = edited.DeepCopy()
		edited.Spec.Rules[0].Matches[0].Namespaces = []string{"team"}
		w.setRule(edited)
		if x := excess("honest"); x != inforce.None {
			t.Errorf("a rule that selects another namespace has %d", x)
		}
		edited = edited.DeepCopy()
		edited.Spec.Rules[0].Matches[0].Namespaces = []string{"default", "team"}
		w.setRule(edited)
		if x := excess("honest"); x != inforce.Undecided {
			t.Errorf("a rule that selects one namespace more has %d", x)
		}
		w.settle()
		check := func() {
			t.Helper()
			w.wantReady("honest", metav1.ConditionTrue, problem.ReasonSynced)
			w.wantReady("next", metav1.ConditionTrue, problem.ReasonSynced)
			w.wantReady("bad-00-000", metav1.ConditionTrue, problem.ReasonSynced)
			w.wantReady("bad-00-255", metav1.ConditionFalse, problem.ReasonTooManyRules)
		}
		w.peers[a].put(configMap("honest", "1"))
		w.settle()
		w.wantValue(cm("honest"), "1")
		check()
		if m := w.report("bad-00-255").Conditions[0].Message; !strings.Contains(m, "agentctl members --tree") {
			t.Errorf("it says %q", m)
		}
		w.kill()
		w.start()
		check()
		w.wantReady("bad-00-200", metav1.ConditionTrue, problem.ReasonSynced)
		w.e.mu.Lock()
		moved = true
		w.e.mu.Unlock()
		w.settle()
		w.wantReady("bad-00-000", metav1.ConditionTrue, problem.ReasonSynced)
		w.wantReady("bad-00-200", metav1.ConditionFalse, problem.ReasonTooManyRules)
	})
}

// settleViews waits, in virtual time, until it is chosen which views are opened and nothing moves any more.
func (w *world) settleViews() {
	w.settle()
	time.Sleep(2 * viewsRest)
	w.settle()
}

// Rules need more watches at all clusters together than there may be: those of somebody who wants everything are read at some clusters only,
// and its copies from the others stay as they are. What the rule of another cluster needs is opened, although it came last, and all
// of it when there is room again. It is so after a restart, too.
func TestTooManyWatchesInAll(t *testing.T) {
	inWorld(t, func(w *world) {
		const most = 48
		w.kill()
		w.options = func(o *Options) { o.Watches = most }
		w.start()
		wide := func(n int) *v1alpha1.ResourceSyncRule {
			namespaces := []string{"default"}
			for i := range 9 {
				namespaces = append(namespaces, fmt.Sprintf("n%d-%d", n, i))
			}
			return by(a, n, inNamespaces(testRule(fmt.Sprint("wide-", n)), namespaces...))
		}
		left := func() (rules []string) {
			t.Helper()
			if n := w.peers[a].open() + w.peers[b].open() + w.local.open(); n > most+2 { // namespaces, and objects in the way
				t.Errorf("%d watches are open", n)
			}
			for n := range 2 {
				name := fmt.Sprint("wide-", n)
				c := w.report(name).Conditions[0]
				if c.Reason != problem.ReasonSourceTooLarge {
					continue
				}
				rules = append(rules, name)
				for _, want := range []string{"at most 48 watches", "cluster " + a + ", whose rule this is", "its copies stay as they are"} {
					if !strings.Contains(c.Message, want) {
						t.Errorf("it says %q", c.Message)
					}
				}
			}
			return rules
		}
		w.peers[b].put(configMap("x", "1"))
		w.setRule(wide(1))
		w.settle()
		w.wantValue(cm("x"), "1")
		w.wantReady("wide-1", metav1.ConditionTrue, problem.ReasonSynced)
		early := wide(0) // which reads the same at b, and comes before the other rule
		w.setRule(early)
		honest := configMap("honest", "1")
		honest.SetNamespace("team")
		w.peers[a].put(honest)
		w.setRule(by(b, 5000, inNamespaces(testRule("honest"), "team")))
		w.settleViews()
		if rules := left(); !slices.Equal(rules, []string{"wide-0", "wide-1"}) {
			t.Errorf("of rules %v something is left out", rules)
		}
		w.wantValue(serverKey(honest), "1")
		w.wantReady("honest", metav1.ConditionTrue, problem.ReasonSynced)

		w.kill()
		w.peers[b].remove(cm("x"))
		w.start()
		w.settleViews()
		if rules := left(); len(rules) == 0 {
			t.Error("after a restart nothing is left out")
		}
		w.wantReady("honest", metav1.ConditionTrue, problem.ReasonSynced)

		delete(w.rules, "wide-1")
		w.e.DeleteRule("wide-1")
		w.settleViews()
		w.wantReady("wide-0", metav1.ConditionTrue, problem.ReasonSynced)
		w.wantReady("honest", metav1.ConditionTrue, problem.ReasonSynced)
		w.wantGone(cm("x"))
	})
}

// A view that is left out is unknown, not empty: the copies of what it had stay, whatever becomes of their sources, until it is opened again.
func TestWhatIsLeftOutIsNotAbsent(t *testing.T) {
	inWorld(t, func(w *world) {
		w.kill()
		w.options = func(o *Options) { o.Watches = 16 }
		w.start()
		w.setRule(by(a, 0, testRule("r")))
		w.peers[b].put(configMap("x", "1"))
		w.settle()
		w.wantValue(cm("x"), "1")
		many := inNamespaces(testRule("many"), "n0", "n1", "n2", "n3", "n4", "n5", "n6")
		w.setRule(by(here, 1, many)) // this cluster's own rule, which comes first
		w.settleViews()
		if _, open := w.e.views.byPeer[b][Scope{GVK: w.e.rules.byName["r"].scopes[0].GVK, Namespace: "default"}]; open {
			t.Fatal("the view of b is open")
		}
		w.peers[b].remove(cm("x"))
		w.settle()
		w.wantValue(cm("x"), "1")
		w.wantOwner(cm("x"), b, false)
		w.wantReady("r", metav1.ConditionFalse, problem.ReasonSourceTooLarge)
		delete(w.rules, "many")
		w.e.DeleteRule("many")
		w.settleViews()
		w.wantGone(cm("x"))
		w.wantReady("r", metav1.ConditionTrue, problem.ReasonSynced)
	})
}

// What somebody's rules need and do not get is opened when another one's rule needs it, too, whose part it fits into. What comes
// after a choice and gets nothing says so, although nothing else is opened then.
func TestWhoNeedsAWatchMatters(t *testing.T) {
	inWorld(t, func(w *world) {
		w.kill()
		w.options = func(o *Options) { o.Watches = 64 }
		w.start()
		wide := func(n int) *v1alpha1.ResourceSyncRule {
			var namespaces []string
			for i := range 24 {
				namespaces = append(namespaces, fmt.Sprintf("a%d-%02d", n, i))
			}
			return by(a, n, inNamespaces(testRule(fmt.Sprint("wide-", n)), namespaces...))
		}
		w.setRule(wide(0))
		w.settleViews()
		w.wantReady("wide-0", metav1.ConditionFalse, problem.ReasonSourceTooLarge)
		left := ""
		w.e.mu.Lock()
		for _, s := range w.e.rules.byName["wide-0"].scopes {
			if w.e.views.byPeer[b][s] == nil {
				left = s.Namespace
			}
		}
		w.e.mu.Unlock()
		if left == "" {
			t.Fatal("all is opened at b")
		}
		w.setRule(by(b, 5000, inNamespaces(testRule("honest"), left)))
		w.settleViews()
		w.wantReady("honest", metav1.ConditionTrue, problem.ReasonSynced)

		more := by(a, 6000, inNamespaces(testRule("more"), "b0", "b1"))
		more.Spec.GVK.Kind = "Secret"
		w.setRule(more)
		w.settleViews()
		w.wantReady("more", metav1.ConditionFalse, problem.ReasonSourceTooLarge)
	})
}

// A rule of a kind that is not served here, or of namespaces that may not be listed, is edited to name others again and again. The watches
// that it needs no more end.
func TestWatchesThatNeverListEnd(t *testing.T) {
	inWorld(t, func(w *world) {
		w.local.cut(errUnavailable())
		for n := range 20 {
			r := inNamespaces(testRule("r"), fmt.Sprint("n", n))
			r.Generation = int64(n)
			w.setRule(r)
			w.settle()
		}
		w.e.mu.Lock()
		defer w.e.mu.Unlock()
		if n := len(w.e.local.watches); n > 1 {
			t.Errorf("%d local watches are kept", n)
		}
	})
}

// Rules that leave this cluster out have no place among those that are bounded. They open nothing here.
func TestRulesForOthersOpenNothingHere(t *testing.T) {
	inWorld(t, func(w *world) {
		before := w.local.open()
		for n := range 20 {
			r := by(a, n, inNamespaces(testRule(fmt.Sprint("elsewhere-", n)), fmt.Sprint("n", n), "default"))
			r.Spec.Targets = &v1alpha1.ClusterSelector{Names: []string{"another"}}
			w.setRule(r)
		}
		w.settle()
		if n := w.local.open(); n > before {
			t.Errorf("%d watches are open here, %d before", n, before)
		}
	})
}
