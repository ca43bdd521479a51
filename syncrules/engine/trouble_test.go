// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/syncrules/engine/problem"
)

func TestMissingNamespace(t *testing.T) {
	inWorld(t, func(w *world) {
		r := testRule("r")
		r.Spec.Rules[0].Matches[0].Namespaces = []string{"late"}
		obj := configMap("x", "1")
		obj.SetNamespace("late")
		w.peers[a].addNamespace("late")
		w.peers[a].put(obj)
		w.setRule(r)
		w.settle()
		w.wantReady("r", metav1.ConditionFalse, problem.ReasonNamespaceMissing)
		time.Sleep(time.Minute)
		w.local.addNamespace("late")
		w.now()
		w.wantValue(serverKey(obj), "1")
		w.settle()
		w.wantReady("r", metav1.ConditionTrue, problem.ReasonSynced)
		if open := w.local.open(); open != 1 {
			t.Errorf("%d local watches, want the one for copies", open)
		}
	})
}

func TestServerThatChangesWhatItIsGiven(t *testing.T) {
	inWorld(t, func(w *world) {
		w.local.admit = func(o *unstructured.Unstructured) error {
			if o.GetKind() == "ConfigMap" {
				_ = unstructured.SetNestedField(o.Object, "injected", "data", "sidecar")
				withAnnotations(o, map[string]string{"injector": "was here"})
			}
			return nil
		}
		w.setRule(testRule("r"))
		w.peers[a].put(configMap("x", "1"))
		w.settle()
		time.Sleep(time.Minute)
		if n := w.local.writes(); n != 1 {
			t.Errorf("%d writes, want 1: the server's answer is final", n)
		}
		w.local.edit(cm("x"), func(o *unstructured.Unstructured) { _ = unstructured.SetNestedField(o.Object, "t", "data", "v") })
		w.settle()
		w.wantValue(cm("x"), "1")
	})
}

func TestAnnotationThatComesBack(t *testing.T) {
	inWorld(t, func(w *world) {
		w.setRule(testRule("r"))
		w.peers[a].put(configMap("x", "1"))
		w.settle()
		for range 100 { // a local controller that insists
			w.local.edit(cm("x"), func(o *unstructured.Unstructured) { withAnnotations(o, map[string]string{"status-of": "mine"}) })
			time.Sleep(20 * time.Millisecond)
		}
		writes := w.local.writes()
		time.Sleep(time.Minute)
		w.now()
		if n := w.local.writes(); n != writes || n > 20 {
			t.Errorf("%d writes, then %d more: the fight goes on", writes, n-writes)
		}
		if w.local.find(cm("x")).GetAnnotations()["status-of"] != "mine" {
			t.Errorf("the annotation was taken away in the end")
		}
	})
}

func TestLocalOutage(t *testing.T) {
	inWorld(t, func(w *world) {
		w.setRule(testRule("r"))
		w.settle()
		w.local.cut(errUnavailable())
		for i := range 20 {
			w.peers[a].put(configMap(fmt.Sprintf("x%02d", i), "1"))
		}
		time.Sleep(time.Minute)
		w.wantReady("r", metav1.ConditionFalse, problem.ReasonLocalUnreachable)
		if n := w.local.count("create"); n > 20*20 {
			t.Errorf("%d creates in a minute of outage", n)
		}
		w.local.cut(nil)
		w.now()
		if n := len(w.local.names("ConfigMap")); n != 20 {
			t.Errorf("%d copies right after the outage, want 20", n)
		}
	})
}

func TestRefusedWritesAreReported(t *testing.T) {
	inWorld(t, func(w *world) {
		secret := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "s", "namespace": "default"},
			"type": "Opaque", "data": map[string]any{"x": "aHVudGVyMg=="},
		}}
		w.local.admit = func(o *unstructured.Unstructured) error {
			if o.GetKind() == "Secret" {
				return errInvalid(serverKey(o), "hunter2")
			}
			return apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, o.GetName(), nil)
		}
		r := testRule("secrets")
		r.Spec.GVK.Kind = "Secret"
		w.setRule(r)
		w.setRule(testRule("maps"))
		w.peers[a].put(secret)
		w.peers[a].put(configMap("x", "1"))
		w.settle()
		w.wantReady("secrets", metav1.ConditionFalse, problem.ReasonInvalidObject)
		w.wantReady("maps", metav1.ConditionFalse, problem.ReasonMissingPermission)
		if text := fmt.Sprint(w.report("secrets")); strings.Contains(text, "hunter2") || strings.Contains(text, "aHVudGVyMg") {
			t.Errorf("the report tells a secret: %s", text)
		}
		creates := w.local.count("create")
		time.Sleep(5 * time.Minute)
		if n := w.local.count("create") - creates; n > 30 {
			t.Errorf("%d attempts in 5 minutes: no back-off", n)
		}
	})
}

func TestConsent(t *testing.T) {
	inWorld(t, func(w *world) {
		role := testRule("roles")
		role.Spec.GVK = v1alpha1.GroupVersionKind{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRole"}
		w.setRule(role)
		r := testRule("r")
		r.Spec.Rules[0].Matches[0].Namespaces = []string{"kube-system"}
		w.setRule(r)
		obj := configMap("x", "1")
		obj.SetNamespace("kube-system")
		w.peers[a].put(obj)
		w.settle()
		w.wantReady("roles", metav1.ConditionFalse, problem.ReasonConsentRequired)
		w.wantReady("r", metav1.ConditionFalse, problem.ReasonConsentRequired)
		w.wantGone(serverKey(obj))
		if w.local.writes() != 0 {
			t.Errorf("something was written")
		}
	})
}

func TestInvalidRuleFreezes(t *testing.T) {
	inWorld(t, func(w *world) {
		w.setRule(testRule("r"))
		w.peers[a].put(configMap("x", "1"))
		w.settle()
		bad := testRule("r")
		bad.Spec.Rules[0].Mutations.Overrides = []v1alpha1.Override{{Path: "data", Value: "x"}}
		w.setRule(bad)
		w.peers[a].put(configMap("x", "2"))
		w.settle()
		w.wantReady("r", metav1.ConditionFalse, problem.ReasonInvalidRule)
		if m := w.report("r").Conditions[0].Message; !strings.Contains(m, "spec.rules[0].mutations.overrides[0].path") {
			t.Errorf("message %q lacks the path", m)
		}
		w.wantOwner(cm("x"), a, false)
		w.wantValue(cm("x"), "1")
		w.setRule(testRule("r"))
		w.settle()
		w.wantValue(cm("x"), "2")
	})
}
