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
	"github.com/roster-mesh/roster/syncrules/engine/conflicts"
	"github.com/roster-mesh/roster/syncrules/engine/problem"
)

// moving is testRule with overrides of fields of metadata, given as pairs of name and value.
func moving(r *v1alpha1.ResourceSyncRule, overrides ...string) *v1alpha1.ResourceSyncRule {
	for i := 0; i < len(overrides); i += 2 {
		r.Spec.Rules[0].Mutations.Overrides = append(r.Spec.Rules[0].Mutations.Overrides,
			v1alpha1.Override{Path: "/metadata/" + overrides[i], Value: overrides[i+1]})
	}
	return r
}

// toKind is a rule whose copies are of another kind of the group example.com.
func toKind(r *v1alpha1.ResourceSyncRule, kind string) *v1alpha1.ResourceSyncRule {
	r.Spec.Rules[0].Mutations.GVK = &v1alpha1.GroupVersionKind{Group: "example.com", Version: "v1", Kind: kind}
	return r
}

func thing(kind, namespace, name string) Key {
	return Key{GroupKind: schema.GroupKind{Group: "example.com", Kind: kind}, Namespace: namespace, Name: name}
}

func labelled(obj *unstructured.Unstructured, key, value string) *unstructured.Unstructured {
	obj.SetLabels(map[string]string{key: value})
	return obj
}

// restart ends the engine, lets something happen meanwhile, and starts another one.
func (w *world) restart(meanwhile func()) {
	w.kill()
	meanwhile()
	w.start()
	w.settle()
}

// wantCopies wants the ConfigMaps here to have these names.
func (w *world) wantCopies(names ...string) {
	w.t.Helper()
	if got := w.local.names("ConfigMap"); fmt.Sprint(got) != fmt.Sprint(names) {
		w.t.Errorf("ConfigMaps %v, want %v", got, names)
	}
}

func TestRenamedCopyFollowsItsSource(t *testing.T) {
	inWorld(t, func(w *world) {
		long := strings.Repeat("long-", 20) + "name"
		w.setRule(moving(testRule("r"), "name", "copy-of-{{ .Object.GetName }}"))
		for _, n := range []string{"x", "y", long} {
			w.peers[a].put(configMap(n, "1"))
		}
		w.settle()
		w.wantCopies("copy-of-"+long, "copy-of-x", "copy-of-y")
		w.wantReady("r", metav1.ConditionTrue, problem.ReasonSynced)
		w.peers[a].put(configMap("x", "2"))
		w.local.edit(cm("copy-of-y"), func(o *unstructured.Unstructured) { _ = unstructured.SetNestedField(o.Object, "t", "data", "v") })
		w.local.remove(cm("copy-of-" + long))
		w.settle()
		w.wantValue(cm("copy-of-x"), "2")
		w.wantValue(cm("copy-of-y"), "1")
		w.wantValue(cm("copy-of-"+long), "1")
		w.peers[a].remove(cm("x"))
		w.now()
		w.wantGone(cm("copy-of-x"))
		writes := w.local.writes()
		w.restart(func() {})
		if n := w.local.writes() - writes; n > 0 {
			t.Errorf("%d writes by a restart", n)
		}
		w.restart(func() { w.peers[a].remove(cm(long)) })
		w.wantCopies("copy-of-y")
		w.restart(func() { w.peers[a].cut(errUnavailable()) })
		w.wantOwner(cm("copy-of-y"), a, false)
		w.peers[a].remove(cm("y"))
		w.peers[a].cut(nil)
		w.settle()
		w.wantCopies()
		w.checkIndexes()
	})
}

func TestMovedToAnotherNamespace(t *testing.T) {
	inWorld(t, func(w *world) {
		w.setRule(moving(testRule("r"), "namespace", "team"))
		w.peers[a].put(configMap("x", "1"))
		w.settle()
		there := cm("x")
		there.Namespace = "team"
		w.wantValue(there, "1")
		w.wantGone(cm("x"))
		if w.local.open() != 1 {
			t.Errorf("%d local watches, want one, of the namespace that the copies are in", w.local.open())
		}
		w.restart(func() { w.peers[a].remove(cm("x")) })
		w.wantGone(there)
	})
}

// PARITY C5, C6.
func TestAnotherKind(t *testing.T) {
	inWorld(t, func(w *world) {
		others := []Key{thing("Thing", "default", "free"), thing("Thing", "default", "of-another")}
		for i, k := range others {
			obj := &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "example.com/v1", "kind": "Thing", "metadata": map[string]any{"namespace": k.Namespace, "name": k.Name},
			}}
			if i > 0 {
				obj.SetLabels(map[string]string{v1alpha1.LabelOwnerClusterID: b})
				withAnnotations(obj, map[string]string{v1alpha1.AnnotationOwnerClusterID: b})
			}
			w.local.put(obj)
		}
		w.setRule(toKind(testRule("r"), "Thing"))
		for _, n := range []string{"x", "free", "of-another"} {
			w.peers[a].put(configMap(n, "1"))
		}
		w.settle()
		w.wantCopies()
		w.wantValue(thing("Thing", "default", "x"), "1")
		w.wantReady("r", metav1.ConditionFalse, problem.ReasonConflict)
		w.restart(func() { w.peers[a].remove(cm("x")) })
		w.wantGone(thing("Thing", "default", "x"))
		w.e.DeleteRule("r")
		w.settle()
		for _, k := range others {
			if w.local.find(k) == nil || syncrules.Orphaned(w.local.find(k)) {
				t.Errorf("%s was touched", k)
			}
		}
		if w.local.count("update") > 0 {
			t.Errorf("requests %v", w.local.requests)
		}
	})
}

func TestKindOutsideNamespaces(t *testing.T) {
	inWorld(t, func(w *world) {
		w.setRule(toKind(testRule("r"), "ClusterThing"))
		w.peers[a].put(configMap("x", "1"))
		w.settle()
		w.wantValue(thing("ClusterThing", "", "x"), "1")
		w.wantReady("r", metav1.ConditionTrue, problem.ReasonSynced)
		w.restart(func() { w.peers[a].remove(cm("x")) })
		w.wantGone(thing("ClusterThing", "", "x"))
	})
}

func TestNamespacesAloneOfAKindOutsideThem(t *testing.T) {
	inWorld(t, func(w *world) {
		r := testRule("r")
		r.Spec.GVK = v1alpha1.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "ClusterThing"}
		obj := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "example.com/v1", "kind": "ClusterThing", "metadata": map[string]any{"name": "x"},
		}}
		w.peers[a].put(labelled(obj, "l", "v"))
		w.setRule(r)
		w.settle()
		w.wantReady("r", metav1.ConditionFalse, problem.ReasonInvalidRule)
		if m := w.report("r").Conditions[0].Message; !strings.Contains(m, "spec.rules[0].match[0]") {
			t.Errorf("message %q does not name the field", m)
		}
		w.wantGone(serverKey(obj))
		r = r.DeepCopy()
		r.Spec.Rules[0].Matches[0].Labels = []metav1.LabelSelector{{MatchLabels: map[string]string{"l": "v"}}}
		r.Spec.Rules[0].Matches[0].Namespaces = []string{"default", "team"}
		w.setRule(r)
		w.settle()
		w.wantReady("r", metav1.ConditionTrue, problem.ReasonSynced)
		w.wantOwner(serverKey(obj), a, false)
		if w.peers[a].open() != 1 || w.local.open() != 1 {
			t.Errorf("%d watches at the source, %d here: the kind has one scope", w.peers[a].open(), w.local.open())
		}
	})
}

func TestSourceMovesItsCopy(t *testing.T) {
	inWorld(t, func(w *world) {
		r := moving(testRule("r"), "name", "{{ .Object.Labels.as }}")
		w.setRule(r)
		w.peers[a].put(labelled(configMap("x", "1"), "as", "one"))
		w.peers[a].put(labelled(configMap("y", "1"), "as", "other"))
		w.settle()
		w.wantCopies("one", "other")
		w.peers[a].put(labelled(configMap("x", "1"), "as", "two"))
		w.now()
		w.wantCopies("other", "two")
		w.restart(func() { w.peers[a].put(labelled(configMap("x", "1"), "as", "three")) })
		w.wantCopies("other", "three")
		// Where its copy belongs cannot be told: that of last time stays, others go on.
		w.peers[a].put(configMap("x", "2"))
		w.peers[a].put(labelled(configMap("y", "2"), "as", "other"))
		w.settle()
		w.wantCopies("other", "three")
		w.wantValue(cm("three"), "1")
		w.wantValue(cm("other"), "2")
		w.wantReady("r", metav1.ConditionFalse, problem.ReasonSourceObject)
		if m := w.report("r"); m.Failed != 1 || m.Matched != 2 || !strings.Contains(m.Conditions[0].Message, "default/x") {
			t.Errorf("report %+v", m)
		}
		w.peers[a].put(labelled(configMap("x", "2"), "as", "one"))
		w.settle()
		w.wantCopies("one", "other")
		w.wantReady("r", metav1.ConditionTrue, problem.ReasonSynced)
		kept := moving(testRule("r"), "name", "{{ .Object.Labels.as }}")
		kept.Spec.DeletionPolicy = v1alpha1.DeletionOrphan
		w.setRule(kept)
		w.settle()
		w.peers[a].put(labelled(configMap("x", "2"), "as", "two"))
		w.settle()
		w.wantOwner(cm("one"), a, true)
		w.wantOwner(cm("two"), a, false)
		w.e.DeleteRule("r") // with a fault on record
		w.peers[a].put(configMap("y", "3"))
		w.settle()
		w.setRule(kept)
		w.settle()
		w.wantReady("r", metav1.ConditionFalse, problem.ReasonSourceObject)
		w.checkIndexes()
	})
}

func TestClustersInTemplates(t *testing.T) {
	inWorld(t, func(w *world) {
		told := func(id, name, region, message string) {
			w.e.SetPeer(Peer{ClusterID: id, Source: w.peers[id], FeaturesKnown: true, Cluster: &v1alpha1.Cluster{
				ObjectMeta: metav1.ObjectMeta{Name: name},
				Status:     v1alpha1.ClusterStatus{Message: message, Locality: &v1alpha1.Locality{Region: region}},
			}})
		}
		w.setRule(moving(testRule("r"), "name", "{{ .Object.GetName }}-of-{{ .Cluster.Name }}",
			"labels?/from", "{{ .Cluster.Status.Locality.Region }}", "labels?/to", "{{ .LocalCluster.Name }}"))
		w.peers[a].put(configMap("x", "1"))
		w.peers[b].put(configMap("x", "1")) // the same, and yet another copy
		w.settle()
		w.wantCopies() // nothing is known of the clusters
		told(a, "alpha", "north", "")
		told(b, "beta", "south", "")
		w.settle()
		w.wantCopies("x-of-alpha", "x-of-beta")
		if l := w.local.find(cm("x-of-beta")).GetLabels(); l["from"] != "south" || l["to"] != "here" {
			t.Errorf("labels %v", l)
		}
		decided := w.decisions()
		told(a, "alpha", "north", "a message that comes and goes")
		w.cluster = w.cluster.DeepCopy()
		w.cluster.Status.Message = "another"
		w.e.ClusterChanged()
		w.settle()
		if n := w.decisions() - decided; n > 0 {
			t.Errorf("%d decisions about what templates do not see", n)
		}
		told(a, "alpha", "east", "")
		w.settle()
		if l := w.local.find(cm("x-of-alpha")).GetLabels(); l["from"] != "east" {
			t.Errorf("labels %v", l)
		}
		told(a, "gamma", "east", "")
		w.settle()
		w.wantCopies("x-of-beta", "x-of-gamma")
		w.cluster = &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "there"}}
		w.e.ClusterChanged()
		w.settle()
		if l := w.local.find(cm("x-of-gamma")).GetLabels(); l["to"] != "there" {
			t.Errorf("labels %v", l)
		}
		w.cluster = nil // not known: nothing changes
		w.e.ClusterChanged()
		w.e.SetPeer(Peer{ClusterID: b, Source: w.peers[b], FeaturesKnown: true})
		w.settle()
		w.wantCopies("x-of-beta", "x-of-gamma")
		w.checkIndexes()
	})
}

// The same object from two clusters is rendered for each of them where a template reads its cluster.
func TestRenderedForEachCluster(t *testing.T) {
	inWorld(t, func(w *world) {
		for id, name := range map[string]string{a: "alpha", b: "beta"} {
			w.peers[id].put(configMap("x", "1"))
			w.e.SetPeer(Peer{ClusterID: id, Source: w.peers[id], FeaturesKnown: true, Cluster: &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name}}})
		}
		w.setRule(moving(testRule("r"), "labels?/from", "{{ .Cluster.Name }}"))
		w.settle()
		w.wantReady("r", metav1.ConditionFalse, problem.ReasonConflict)
		if l := w.local.find(cm("x")).GetLabels(); l["from"] != "alpha" {
			t.Errorf("labels %v", l)
		}
	})
}

func TestForeignObjectWhereACopyBelongs(t *testing.T) {
	inWorld(t, func(w *world) {
		for i := range 2 * conflicts.MaxObjectWatches {
			w.local.put(configMap(fmt.Sprintf("copy-of-x%02d", i), "mine"))
			w.peers[a].put(configMap(fmt.Sprintf("x%02d", i), "1"))
		}
		w.setRule(moving(testRule("r"), "name", "copy-of-{{ .Object.GetName }}"))
		w.settle()
		w.wantReady("r", metav1.ConditionFalse, problem.ReasonConflict)
		if w.local.count("update")+w.local.count("delete") > 0 || w.e.conflicts.WatchesLocked() > 0 {
			t.Errorf("requests %v, %d watches of conflicts", w.local.requests, w.e.conflicts.WatchesLocked())
		}
		for i := range 2 * conflicts.MaxObjectWatches {
			w.local.remove(cm(fmt.Sprintf("copy-of-x%02d", i)))
			w.settle()
		}
		w.wantReady("r", metav1.ConditionTrue, problem.ReasonSynced)
		w.checkIndexes()
	})
}

func TestGuardOfMovedCopies(t *testing.T) {
	inWorld(t, func(w *world) {
		w.setRule(toKind(moving(testRule("r"), "name", "copy-of-{{ .Object.GetName }}"), "Thing"))
		for i := range 6 {
			w.peers[a].put(configMap(fmt.Sprint("x", i), "1"))
		}
		w.settle()
		w.restart(func() {
			for i := range 6 {
				w.peers[a].remove(cm(fmt.Sprint("x", i)))
			}
		})
		w.wantReady("r", metav1.ConditionFalse, problem.ReasonDeletionGuard)
		w.peers[a].put(configMap("x3", "1")) // one is back
		w.settle()
		w.wantReady("r", metav1.ConditionTrue, problem.ReasonSynced)
		if got := w.local.names("Thing"); fmt.Sprint(got) != "[copy-of-x3]" {
			t.Errorf("%v are left", got)
		}
		for i := range 6 {
			w.peers[a].put(configMap(fmt.Sprint("x", i), "1"))
		}
		w.settle()
		for i := range 6 { // live deletions are proof
			w.peers[a].remove(cm(fmt.Sprint("x", i)))
		}
		w.settle()
		if got := w.local.names("Thing"); len(got) > 0 {
			t.Errorf("%v are left", got)
		}
	})
}

// Marks that were tampered with do not lead to another source, or to a deletion.
func TestMarksOfMovedCopiesAreRestored(t *testing.T) {
	inWorld(t, func(w *world) {
		w.setRule(moving(testRule("r"), "name", "copy-of-{{ .Object.GetName }}"))
		w.peers[a].put(configMap("x", "1"))
		w.peers[a].put(configMap("y", "1"))
		w.settle()
		before := w.local.find(cm("copy-of-x"))
		for _, key := range []string{"default/y", "default/nothing", "", "x"} {
			w.local.edit(cm("copy-of-x"), func(o *unstructured.Unstructured) {
				withAnnotations(o, map[string]string{v1alpha1.AnnotationOriginalKey: key})
			})
			w.settle()
			after := w.local.find(cm("copy-of-x"))
			if after == nil || after.GetUID() != before.GetUID() || fmt.Sprint(after.GetAnnotations()) != fmt.Sprint(before.GetAnnotations()) {
				t.Errorf("%q: %v, want %v", key, after, before)
			}
			w.restart(func() {
				w.local.edit(cm("copy-of-x"), func(o *unstructured.Unstructured) {
					withAnnotations(o, map[string]string{v1alpha1.AnnotationOriginalKey: key})
				})
			})
			if after = w.local.find(cm("copy-of-x")); after == nil || after.GetUID() != before.GetUID() {
				t.Errorf("%q: it was deleted over a restart", key)
			}
		}
	})
}

// A kind that is missing, here or there, is there at once when it is.
func TestKindThatArrives(t *testing.T) {
	for _, missing := range []string{"here", "there"} {
		t.Run(missing, func(t *testing.T) {
			inWorld(t, func(w *world) {
				s, rule, k := w.local, toKind(testRule("r"), "ClusterThing"), thing("ClusterThing", "", "x")
				if missing == "there" {
					s, rule, k = w.peers[a], testRule("r"), cm("x")
				}
				s.unserved = map[string]bool{k.Kind: true}
				w.peers[a].put(configMap("x", "1"))
				w.setRule(rule)
				w.settle()
				w.wantGone(k)
				w.wantReady("r", metav1.ConditionFalse, map[string]string{"here": problem.ReasonKindUnknown, "there": problem.ReasonSourceKindUnknown}[missing])
				time.Sleep(time.Hour)
				s.serve(k.Kind)
				w.now()
				w.wantValue(k, "1")
				w.settle()
				w.wantReady("r", metav1.ConditionTrue, problem.ReasonSynced)
			})
		})
	}
}
