// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/syncrules"
)

// Marks that were changed here lead to no source; while the owner cannot be asked, that proves nothing.
func TestForgedMarksProveNothing(t *testing.T) {
	for mark, forged := range map[string]string{
		v1alpha1.AnnotationOriginalKey: "elsewhere/x",
		v1alpha1.AnnotationOriginalGVK: "Secret./v1",
	} {
		t.Run(mark, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.setRule(moving(testRule("r"), "name", "copy-of-{{ .Object.GetName }}"))
				w.peers[a].put(configMap("x", "1"))
				w.settle()
				w.peers[a].cut(errUnavailable())
				w.settle()
				w.local.edit(cm("copy-of-x"), func(o *unstructured.Unstructured) {
					withAnnotations(o, map[string]string{mark: forged})
				})
				w.settle()
				if w.local.find(cm("copy-of-x")) == nil {
					t.Fatal("it was deleted although its owner could not be asked")
				}
				w.peers[a].cut(nil)
				w.settle()
				if o := w.local.find(cm("copy-of-x")); o == nil || o.GetAnnotations()[mark] == forged {
					t.Errorf("it is not as it was: %v", o)
				}
			})
		})
	}
}

// An edit is no way around the guard: what it lets go of was missing before.
func TestGuardOutlivesAnEdit(t *testing.T) {
	inWorld(t, func(w *world) {
		r := testRule("r")
		r.Spec.RuleDeletionPolicy = v1alpha1.DeletionDelete
		w.setRule(r)
		for i := range 30 {
			w.peers[a].put(configMap(fmt.Sprintf("x%02d", i), "1"))
		}
		w.settle()
		w.peers[a].cut(errUnavailable())
		for i := range 30 {
			w.peers[a].remove(cm(fmt.Sprintf("x%02d", i)))
		}
		w.peers[a].cut(nil)
		w.settle()
		edited := r.DeepCopy()
		edited.Spec.Rules[0].Matches[0].Namespaces = []string{"default", "other"}
		w.setRule(edited)
		w.settle()
		if n := len(w.local.names("ConfigMap")); n != 30 {
			t.Errorf("%d copies after the edit, want 30", n)
		}
	})
}

// A peer that answers with what it was not asked for is not believed.
func TestOnlyWhatWasAskedForIsTaken(t *testing.T) {
	asked := Scope{GVK: configMap("x", "1").GroupVersionKind(), Namespace: "default"}
	if !asked.Holds(configMap("x", "1")) {
		t.Error("what was asked for is not taken")
	}
	elsewhere := configMap("x", "1")
	elsewhere.SetNamespace("kube-system")
	secret := configMap("x", "1")
	secret.SetKind("Secret")
	for _, o := range []*unstructured.Unstructured{elsewhere, secret, configMap("", "1"), {Object: map[string]any{}}} {
		if asked.Holds(o) {
			t.Errorf("%v is taken", o.Object)
		}
	}
	inWorld(t, func(w *world) {
		w.setRule(testRule("r"))
		w.settle()
		w.e.mu.Lock()
		feed := w.e.views.byPeer[a][asked].feed
		w.e.mu.Unlock()
		if !feed.keep(configMap("x", "1")) || feed.keep(secret) || feed.first(secret) >= 0 {
			t.Error("the watch keeps something else than what was asked for")
		}
		feed.Upsert(secret.DeepCopy())
		feed.Replace([]*unstructured.Unstructured{configMap("y", "1"), secret.DeepCopy()}, "")
		w.settle()
		w.wantValue(cm("y"), "1")
		w.wantGone(serverKey(secret))
		w.wantGone(cm("x"))
	})
}

// A copy that something here changes back each time is fought over ever more slowly; a new source is written at once.
func TestFightsSlowDown(t *testing.T) {
	inWorld(t, func(w *world) {
		w.setRule(testRule("r"))
		w.peers[a].put(configMap("x", "1"))
		w.settle()
		fight := func(d time.Duration) int {
			before := w.local.writes()
			for range int(d / (100 * time.Millisecond)) {
				if o := w.local.find(cm("x")); fmt.Sprint(o.Object["data"]) != "map[v:theirs]" {
					w.local.edit(cm("x"), func(o *unstructured.Unstructured) {
						_ = unstructured.SetNestedField(o.Object, "theirs", "data", "v")
					})
				}
				time.Sleep(100 * time.Millisecond)
			}
			return w.local.writes() - before
		}
		first := fight(10 * time.Minute)
		second := fight(10 * time.Minute)
		if first > 100 || second > 12 {
			t.Errorf("%d writes in the first ten minutes, %d in the next", first, second)
		}
		w.peers[a].put(configMap("x", "2"))
		time.Sleep(time.Second)
		w.wantValue(cm("x"), "2")
	})
}

// So is one that something here replaces by an object of its own, and then takes that away: most creates run into an object
// that is in the way.
func TestFightsWithCreatesSlowDown(t *testing.T) {
	inWorld(t, func(w *world) {
		w.setRule(testRule("r"))
		w.peers[a].put(configMap("x", "1"))
		w.settle()
		for range 6000 { // ten minutes
			o := w.local.find(cm("x"))
			if o != nil {
				w.local.remove(cm("x"))
			}
			if o != nil && syncrules.IsCopy(o) {
				w.local.put(configMap("x", "theirs"))
			}
			time.Sleep(100 * time.Millisecond)
		}
		if n := w.local.count("create"); n > 100 {
			t.Errorf("%d creates in ten minutes", n)
		}
	})
}
