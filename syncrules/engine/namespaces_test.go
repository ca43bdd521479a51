// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/syncrules"
	"github.com/roster-mesh/roster/syncrules/engine/namespaces"
	"github.com/roster-mesh/roster/syncrules/engine/problem"
)

func lateRule(create bool) (*v1alpha1.ResourceSyncRule, *unstructured.Unstructured) {
	r := testRule("r")
	r.Spec.Rules[0].Matches[0].Namespaces = []string{"late"}
	r.Spec.CreateNamespace = create
	obj := configMap("x", "1")
	obj.SetNamespace("late")
	return r, obj
}

func namespaceNamed(name string) Key {
	return Key{GroupKind: schema.GroupKind{Kind: "Namespace"}, Name: name}
}

func TestNamespaceIsCreated(t *testing.T) {
	inWorld(t, func(w *world) {
		r, obj := lateRule(true)
		r.Spec.RuleDeletionPolicy = v1alpha1.DeletionDelete
		w.setRule(r)
		w.peers[a].put(obj)
		w.now()
		w.wantValue(serverKey(obj), "1")
		ns := w.local.find(namespaceNamed("late"))
		if ns == nil || ns.GetAnnotations()[namespaces.AnnotationCreatedFor] != "r" || syncrules.IsCopy(ns) {
			t.Errorf("the namespace is %v", ns)
		}
		w.e.DeleteRule("r")
		w.settle()
		w.wantGone(serverKey(obj))
		if w.local.find(namespaceNamed("late")) == nil {
			t.Errorf("a namespace was deleted")
		}
	})
}

func TestNamespaceMayNotBeCreated(t *testing.T) {
	inWorld(t, func(w *world) {
		w.local.admits(func(o *unstructured.Unstructured) error {
			if o.GetKind() == "Namespace" {
				return statusError(403, metav1.StatusReasonForbidden, `namespaces is forbidden: User "agent" cannot create resource "namespaces"`)
			}
			return nil
		})
		r, obj := lateRule(true)
		w.setRule(r)
		w.peers[a].put(obj)
		w.settle()
		w.wantReady("r", metav1.ConditionFalse, problem.ReasonMissingPermission)
		if m := w.report("r").Conditions[0].Message; !strings.Contains(m, "may not create namespaces") {
			t.Errorf("message %q does not name the right", m)
		}
		time.Sleep(time.Minute)
		w.local.addNamespace("late")
		w.now()
		w.wantValue(serverKey(obj), "1")
	})
}

// A namespace that appears between a refusal and its answer is not waited for.
func TestNamespaceAppearsBeforeTheAnswer(t *testing.T) {
	inWorld(t, func(w *world) {
		r, obj := lateRule(false)
		r.Spec.Rules[0].Matches[0].Namespaces = []string{"late", "later"}
		other := configMap("x", "1")
		other.SetNamespace("later") // has namespaces watched
		w.setRule(r)
		w.peers[a].put(other)
		w.settle()
		const late = 100 * time.Millisecond
		w.local.mu.Lock()
		w.local.late = late
		w.local.mu.Unlock()
		w.peers[a].put(obj)
		time.Sleep(late / 2)
		w.wantGone(serverKey(obj))
		w.local.addNamespace("late")
		time.Sleep(late/2 + late/4)
		w.wantValue(serverKey(obj), "1")
	})
}

func TestNamespaceInDeletion(t *testing.T) {
	for _, create := range []bool{false, true} {
		t.Run(fmt.Sprint(create), func(t *testing.T) {
			inWorld(t, func(w *world) {
				going := &unstructured.Unstructured{Object: map[string]any{
					"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": "late", "deletionTimestamp": "2026-01-01T00:00:00Z"},
				}}
				w.local.put(going)
				w.local.admits(func(o *unstructured.Unstructured) error {
					if ns := w.local.objects[namespaceNamed("late")]; o.GetNamespace() == "late" && ns.GetDeletionTimestamp() != nil {
						return statusError(403, metav1.StatusReasonForbidden, "because it is being terminated", metav1.StatusCause{Type: "NamespaceTerminating"})
					}
					return nil
				})
				r, obj := lateRule(create)
				w.setRule(r)
				w.peers[a].put(obj)
				w.settle()
				w.wantReady("r", metav1.ConditionFalse, problem.ReasonNamespaceTerminating)
				time.Sleep(5 * time.Minute)
				w.now()
				if n := w.local.count("create"); n > 30 {
					t.Errorf("%d creates while the namespace goes", n)
				}
				w.local.remove(namespaceNamed("late"))
				w.now()
				if create {
					w.wantValue(serverKey(obj), "1")
					return
				}
				w.settle()
				w.wantReady("r", metav1.ConditionFalse, problem.ReasonNamespaceMissing)
			})
		})
	}
}

// What a template may have created is bounded, also across a restart, and what is deleted makes room.
func TestNamespacesOfARuleAreBounded(t *testing.T) {
	inWorld(t, func(w *world) {
		r := testRule("r")
		r.Spec.CreateNamespace = true
		r.Spec.Rules[0].Mutations.Overrides = []v1alpha1.Override{{
			Type: v1alpha1.OverrideReplace, Path: "/metadata/namespace", Value: "n-{{ .Object.metadata.name }}",
		}}
		w.setRule(r)
		for i := range namespaces.Max {
			w.peers[a].put(configMap(fmt.Sprintf("x%03d", i), "1"))
		}
		w.settle()
		w.settle()
		w.wantReady("r", metav1.ConditionTrue, problem.ReasonSynced)
		w.kill()
		w.start()
		for i := range 20 {
			w.peers[a].put(configMap(fmt.Sprintf("y%03d", i), "1"))
		}
		w.settle()
		w.settle()
		const others = 2 // that were there before
		if n := len(w.local.names("Namespace")); n != namespaces.Max+others {
			t.Errorf("%d namespaces, want %d", n, namespaces.Max+others)
		}
		w.wantReady("r", metav1.ConditionFalse, problem.ReasonNamespaceLimit)
		if m := w.report("r").Conditions[0].Message; !strings.Contains(m, "250 were created for its rule here") || !strings.Contains(m, "create the others yourself") {
			t.Errorf("message %q", m)
		}
		w.local.addNamespace("n-y000")
		w.now()
		moved := cm("y000")
		moved.Namespace = "n-y000"
		w.wantValue(moved, "1")
		w.peers[a].remove(cm("x000"))
		w.settle()
		w.local.remove(namespaceNamed("n-x000"))
		w.settle()
		w.settle()
		if n := len(w.local.names("Namespace")); n != namespaces.Max+others+1 {
			t.Errorf("%d namespaces after one made room, want %d", n, namespaces.Max+others+1)
		}
	})
}

// Several copies that need one namespace come at the same time: it is created once, and counts.
func TestNamespaceOfSeveralCopiesCounts(t *testing.T) {
	inWorld(t, func(w *world) {
		r := testRule("r")
		r.Spec.CreateNamespace = true
		r.Spec.Rules[0].Mutations.Overrides = []v1alpha1.Override{{
			Type: v1alpha1.OverrideReplace, Path: "/metadata/namespace", Value: "n-{{ trunc 4 .Object.metadata.name }}",
		}}
		w.setRule(r)
		for i := range namespaces.Max + 20 {
			w.peers[a].put(configMap(fmt.Sprintf("x%03da", i), "1"))
			w.peers[a].put(configMap(fmt.Sprintf("x%03db", i), "1"))
		}
		w.settle()
		w.settle()
		const others = 2 // that were there before
		if n := len(w.local.names("Namespace")); n != namespaces.Max+others {
			t.Errorf("%d namespaces, want %d", n, namespaces.Max+others)
		}
	})
}
