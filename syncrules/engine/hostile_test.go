// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/syncrules/engine/deletions"
	"github.com/roster-mesh/roster/syncrules/engine/guard"
	"github.com/roster-mesh/roster/syncrules/engine/memory"
	"github.com/roster-mesh/roster/syncrules/engine/problem"
	"github.com/roster-mesh/roster/syncrules/engine/tally"
)

// A rule that the guard has stopped, and that an edit then spoils, must not end the agent when an event of its old
// watch comes.
func TestSpoiledRuleThatWasGuarded(t *testing.T) {
	r := &rule{name: "r", guard: guard.New(testRule("r"))}
	for _, name := range []string{"x1", "x2", "x3", "x4"} {
		r.guard.Lack(a, cm(name), false)
	}
	four := guard.Counts{All: 4, Of: func(string) int { return 4 }, Asks: func(string) bool { return true }, Deletion: true}
	if r.guard.Decide(four, time.Now()); !r.guard.Stopped() {
		t.Fatal("the guard does not stop it")
	}
	e := &Engine{rules: ruleSet{byName: map[string]*rule{"r": r}}}
	e.recountLocked("r")
}

// What is wrong with a rule is told of each of its copies: it is one line, and made once.
func TestWhatIsWrongWithARuleIsBounded(t *testing.T) {
	r := newRule(testRule("r"), Options{}.Consent, nil)
	r.refuse(errors.New(strings.Repeat("wrong\n", 10000)))
	e, p := &Engine{}, &peer{}
	_, _, why := e.relateLocked(r, p)
	if !strings.HasPrefix(why, "rule r cannot be used: wrong wrong ") || strings.Contains(why, "\n") || len(why) > 1000 {
		t.Errorf("it says %q", why)
	}
	if n := testing.AllocsPerRun(10, func() { e.relateLocked(r, p) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// The content of a Secret is no less secret where a rule makes something else of it.
func TestRefusalOfWhatWasASecret(t *testing.T) {
	inWorld(t, func(w *world) {
		w.kill()
		w.options = func(o *Options) { o.Consent.SecretsAs = []string{"Thing.example.com"} }
		w.start()
		w.local.admits(func(o *unstructured.Unstructured) error {
			return errInvalidCause("Invalid value: " + fmt.Sprint(o.Object["data"]))
		})
		r := toKind(testRule("r"), "Thing")
		r.Spec.GVK.Kind = "Secret"
		w.setRule(r)
		w.peers[a].put(&unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "s", "namespace": "default"},
			"data": map[string]any{"v": "aHVudGVyMg=="},
		}})
		w.settle()
		w.wantReady("r", metav1.ConditionFalse, problem.ReasonInvalidObject)
		if text := fmt.Sprint(w.report("r"), w.events); strings.Contains(text, "aHVudGVyMg") {
			t.Errorf("the report tells of the content: %s", text)
		}
	})
}

// Nothing was written where an object is in the way, and so nothing was brought up to date.
func TestWhatIsInTheWayIsNotReconciled(t *testing.T) {
	inWorld(t, func(w *world) {
		w.local.put(configMap("x", "mine"))
		w.peers[a].put(configMap("x", "1"))
		w.setRule(testRule("r"))
		w.settle()
		time.Sleep(tally.EventInterval)
		w.settle()
		if done := w.eventsOf(tally.EventReconciled); len(done) > 0 {
			t.Errorf("events %v", done)
		}
		w.wantReady("r", metav1.ConditionFalse, problem.ReasonConflict)
	})
}

// Deletions of a kind that is not served here are proof of nothing that will ever be decided.
func TestDeletionsOfAKindNotServedHereAreBounded(t *testing.T) {
	v := &view{viewKey: viewKey{peer: a, scope: Scope{GVK: schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}}}, entries: map[types.NamespacedName]*entry{}, usage: memory.New(1<<20, memory.Equally).Of(a)}
	s := newServer("default")
	e, err := New(Options{LocalClusterID: here, Local: s, Target: s, Cluster: func() *v1alpha1.Cluster { return nil }})
	if err != nil {
		t.Fatal(err)
	}
	e.queue.Open()
	defer e.queue.ShutDown()
	f := &feed{e: e, v: v}
	v.feed = f
	for i := range deletions.Max + 100 {
		at := types.NamespacedName{Namespace: "default", Name: fmt.Sprint("x", i)}
		e.putEntryLocked(v, at, &entry{})
		f.Delete(at.Namespace, at.Name, nil)
	}
	if v.gone.Len() != deletions.Max {
		t.Errorf("%d deletions are remembered", v.gone.Len())
	}
}
