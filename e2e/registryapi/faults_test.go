// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package registryapi

import (
	"context"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// testWatchAfterGrant: a watch does not go on from a list of before its caller was granted something, and does from the next; it
// hears of what comes into his group and leaves it.
func (f *front) testWatchAfterGrant(t *testing.T) {
	ctx, client := t.Context(), f.shown(t, "late")
	f.make(t, cluster("late-a", "late"))
	before, err := client.List(ctx, metav1.ListOptions{})
	if err != nil || len(before.Items) > 0 {
		t.Fatalf("before: %+v, %v", before, err)
	}
	f.grant(t, "late", groups([]string{"late"}, "get"))
	f.sees(t, "late", "late-a")
	if _, err := client.Watch(ctx, metav1.ListOptions{ResourceVersion: before.ResourceVersion}); !apierrors.IsResourceExpired(err) {
		t.Errorf("from before: %v", err)
	}
	var w watch.Interface
	eventually(t, "a watch goes on from a cached list", func(ctx context.Context) error {
		list, err := client.List(ctx, metav1.ListOptions{ResourceVersion: "0"})
		if err != nil {
			return err
		}
		w, err = client.Watch(t.Context(), metav1.ListOptions{ResourceVersion: list.ResourceVersion})
		return err
	})
	defer w.Stop()
	if _, err := client.Watch(ctx, metav1.ListOptions{ResourceVersion: before.ResourceVersion}); !apierrors.IsResourceExpired(err) {
		t.Errorf("from before, later: %v", err)
	}
	f.make(t, cluster("late-b", ""))
	f.make(t, cluster("late-c", "late"))
	for _, want := range []struct {
		kind watch.EventType
		name string
	}{{watch.Added, "late-c"}, {watch.Deleted, "late-a"}} {
		e := <-w.ResultChan()
		if object, ok := e.Object.(metav1.Object); !ok || e.Type != want.kind || object.GetName() != want.name || want.kind == watch.Deleted && len(object.GetLabels()) > 0 {
			t.Fatalf("%s %+v, and not %s of %s", e.Type, e.Object, want.kind, want.name)
		}
		if _, err := f.shown(t, "").Update(ctx, cluster("late-a", "hidden"), metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

// testUnreadable: a stored Cluster with a time that the CRD takes and Go does not is shown by its metadata, beside the others.
func (f *front) testUnreadable(t *testing.T) {
	ctx := t.Context()
	f.make(t, cluster("unreadable-a", "unreadable"))
	f.make(t, cluster("unreadable-b", "unreadable"))
	path := "/apis/" + v1alpha1.GroupName + "/v1alpha1/clusters/unreadable-a/status"
	patch := `{"status":{"conditions":[{"type":"Ready","status":"True","reason":"R","message":"","lastTransitionTime":"2026-01-01t00:00:00Z"}]}}`
	if _, err := f.rest(t).Patch(types.MergePatchType).AbsPath(path).Body([]byte(patch)).DoRaw(ctx); err != nil {
		t.Fatal(err)
	}
	f.grant(t, "reader", groups([]string{"unreadable"}, "get", "update"))
	f.sees(t, "reader", "unreadable-a", "unreadable-b")
	for _, caller := range []string{"", "reader"} {
		if got := f.listed(t, caller); !slices.Contains(got, "unreadable-a") || !slices.Contains(got, "unreadable-b") {
			t.Errorf("%q lists %v", caller, got)
		}
		if got, err := f.shown(t, caller).Get(ctx, "unreadable-a", metav1.GetOptions{}); err != nil || got.UID == "" {
			t.Errorf("%q gets %+v, %v", caller, got, err)
		}
		_, err := f.shown(t, caller).Update(ctx, cluster("unreadable-a", "unreadable"), metav1.UpdateOptions{})
		if !apierrors.IsInternalError(err) || strings.Contains(err.Error(), "2026") {
			t.Errorf("%q updates: %v", caller, err)
		}
	}
	if _, err := f.shown(t, "stranger").Get(ctx, "unreadable-a", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("a stranger gets it: %v", err)
	}
}
