// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Put creates obj, or lays it over what is there when mine agrees that it is of an earlier write. Labels and annotations
// of others stay. verb is what was done: created, updated or unchanged; there is what the API server holds then. With
// metav1.DryRunAll nothing is written, and the answer is what the API server would say.
func (c *Client) Put(ctx context.Context, gvr schema.GroupVersionResource, obj *unstructured.Unstructured,
	mine func(there *unstructured.Unstructured) error, dryRun ...string,
) (verb string, there *unstructured.Unstructured, err error) {
	client := c.Dynamic.Resource(gvr).Namespace(obj.GetNamespace())
	var lastErr error
	for range WriteAttempts {
		there, err := client.Create(ctx, obj, metav1.CreateOptions{FieldManager: FieldManager, DryRun: dryRun})
		if err == nil {
			return "created", there, nil
		}
		if !apierrors.IsAlreadyExists(err) {
			return "", nil, err
		}
		there, err = client.Get(ctx, obj.GetName(), metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			lastErr = err
			continue
		}
		if err != nil {
			return "", nil, err
		}
		if err := mine(there); err != nil {
			return "", nil, fmt.Errorf("exists and %w; it is left as it is", err)
		}
		changed := overlay(there, obj)
		if !changed {
			return "unchanged", there, nil
		}
		there, err = client.Update(ctx, there, metav1.UpdateOptions{FieldManager: FieldManager, DryRun: dryRun})
		if err == nil {
			return "updated", there, nil
		}
		if !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
			return "", nil, err
		}
		lastErr = err
	}
	return "", nil, errors.Join(fmt.Errorf("gave up after %d attempts", WriteAttempts), lastErr)
}

// overlay puts obj's content over there's and says whether that changed anything. Labels and
// annotations of others stay.
func overlay(there, obj *unstructured.Unstructured) bool {
	before := there.DeepCopy()
	for _, field := range []string{"spec", "data", "type"} {
		if v, found := obj.Object[field]; found {
			there.Object[field] = v
		}
	}
	if m := merged(there.GetLabels(), obj.GetLabels()); len(m) > 0 {
		there.SetLabels(m)
	}
	if m := merged(there.GetAnnotations(), obj.GetAnnotations()); len(m) > 0 {
		there.SetAnnotations(m)
	}
	return !reflect.DeepEqual(before.Object, there.Object)
}

func merged(a, b map[string]string) map[string]string {
	out := make(map[string]string, len(a)+len(b))
	maps.Copy(out, a)
	maps.Copy(out, b)
	return out
}
