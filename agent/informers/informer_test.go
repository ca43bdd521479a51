// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package informers

import (
	"fmt"
	"log/slog"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/roster-mesh/roster/kube"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// TestInformer: each change is notified once, after the index has it, and an object that cannot be decoded does not
// count as deleted.
func TestInformer(t *testing.T) {
	var notified []string
	var m *informer
	say := func(what string, o any) {
		c := o.(metav1.Object)
		_, there, _ := m.index.GetByKey(c.GetName())
		notified = append(notified, fmt.Sprintf("%s %s=%s there %t", what, c.GetName(), c.GetResourceVersion(), there))
	}
	m = newInformer(kube.WatchOptions{}, untrimmed[v1alpha1.Cluster], nil, func(before, now any) {
		if was, ok := before.(metav1.Object); ok {
			say("from "+was.GetResourceVersion(), now)
		} else {
			say("new or gone:", now)
		}
	}, slog.New(slog.DiscardHandler))
	object := func(name, version string) *unstructured.Unstructured {
		u := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"clusterID": "id-" + name}}}
		u.SetName(name)
		u.SetResourceVersion(version)
		return u
	}
	broken := func(name, version string) *unstructured.Unstructured {
		u := object(name, version)
		u.Object["spec"] = "text"
		return u
	}
	want := func(lines ...string) {
		t.Helper()
		slices.Sort(notified)
		slices.Sort(lines)
		if diff := cmp.Diff(lines, notified); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
		notified = nil
	}
	m.Replace([]*unstructured.Unstructured{object("a", "1"), object("b", "2")}, "2")
	want("new or gone: a=1 there true", "new or gone: b=2 there true")
	<-m.synced
	m.Upsert(object("c", "3"))
	m.Upsert(object("a", "4"))
	m.Delete("", "b", object("b", "5"))
	m.Delete("", "b", object("b", "6"))
	want("new or gone: c=3 there true", "from 1 a=4 there true", "new or gone: b=5 there false")
	m.Upsert(broken("a", "7"))
	m.Replace([]*unstructured.Unstructured{broken("a", "7"), object("d", "8")}, "8")
	want("new or gone: d=8 there true", "new or gone: c=3 there false")
	m.Replace([]*unstructured.Unstructured{object("a", "4"), object("d", "6")}, "6")
	want("from 8 d=6 there true")
}
