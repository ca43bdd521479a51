// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package profiles

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

func (r *room) property(name, value string) {
	r.Helper()
	properties := r.alpha.Dynamic.Resource(schema.GroupVersionResource{Group: "about.k8s.io", Version: "v1beta1", Resource: "clusterproperties"})
	r.eventually("property "+name, func(ctx context.Context) error {
		u, err := properties.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if got, _, _ := unstructured.NestedString(u.Object, "spec", "value"); got != value {
			return fmt.Errorf("it is %q", got)
		}
		return nil
	})
}

// shareProperty shows what the agent relies on when somebody else makes a property at the same moment with the same value: to
// apply it succeeds, managedFields tell it, to apply nothing gives it up, and with the UID that creates nothing.
func (r *room) shareProperty() {
	r.Helper()
	properties := r.alpha.Dynamic.Resource(schema.GroupVersionResource{Group: "about.k8s.io", Version: "v1beta1", Resource: "clusterproperties"})
	apply := func(manager string, uid types.UID, spec map[string]any) (managers []string, err error) {
		u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "about.k8s.io/v1beta1", "kind": "ClusterProperty"}}
		u.SetName("shared.example.com")
		u.SetUID(uid)
		if spec != nil {
			u.Object["spec"] = spec
		}
		got, err := properties.Apply(r.Context(), u.GetName(), u, metav1.ApplyOptions{FieldManager: manager})
		if err != nil {
			return nil, err
		}
		for _, entry := range got.GetManagedFields() {
			if strings.Contains(entry.FieldsV1.GetRawString(), `"f:spec":{"f:value":{}`) {
				managers = append(managers, entry.Manager)
			}
		}
		slices.Sort(managers)
		return managers, nil
	}
	same := map[string]any{"value": "same"}
	_, err := apply("fleet", "", same)
	r.must("", err)
	if both, err := apply("roster", "", same); err != nil || !slices.Equal(both, []string{"fleet", "roster"}) {
		r.Fatal("applied by both:", both, err)
	}
	u, err := properties.Get(r.Context(), "shared.example.com", metav1.GetOptions{})
	r.must("", err)
	if left, err := apply("roster", u.GetUID(), map[string]any{}); err != nil || !slices.Equal(left, []string{"fleet"}) {
		r.Fatal("given up by one:", left, err)
	}
	r.property("shared.example.com", "same")
	r.must("", properties.Delete(r.Context(), "shared.example.com", metav1.DeleteOptions{}))
	if _, err := apply("roster", u.GetUID(), map[string]any{}); !apierrors.IsConflict(err) {
		r.Fatal("given up after it was deleted:", err)
	}
}
