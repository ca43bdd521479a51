// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/roster-mesh/roster/e2e/harness"
)

// wayNoise is the way of objects that go nowhere.
const wayNoise = way("noise")

// ruleObject selects what is to go a way, by a label as most rules do.
func ruleObject(w way) *unstructured.Unstructured {
	return rule(w, map[string]any{
		"namespaces": []any{harness.Namespace},
		"labels":     []any{map[string]any{"matchLabels": map[string]any{"bench": string(w)}}},
	})
}

// noisyRule looks at every Secret of the namespace and selects none.
func noisyRule() *unstructured.Unstructured {
	return rule(wayNoise, map[string]any{
		"namespaces":  []any{harness.Namespace},
		"annotations": []any{map[string]any{"matchAnnotations": map[string]any{"bench": "none has this"}}},
	})
}

// lateRule selects in a namespace of its own.
func lateRule() *unstructured.Unstructured {
	return rule(wayLate, map[string]any{"namespaces": []any{lateNamespace}})
}

func rule(w way, match map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "clusterregistry.k8s.cisco.com/v1alpha1", "kind": "ResourceSyncRule",
		"metadata": map[string]any{"name": "bench-" + string(w)},
		"spec": map[string]any{
			"groupVersionKind": map[string]any{"version": "v1", "kind": "Secret"},
			"rules":            []any{map[string]any{"match": []any{match}}},
		},
	}}
}

func (b *bed) createRule(ctx context.Context, r *unstructured.Unstructured) error {
	_, err := b.first().Dynamic.Resource(harness.Rules()).Create(ctx, r, metav1.CreateOptions{})
	return err
}

// deleteRule returns when the rule has gone everywhere.
func (b *bed) deleteRule(ctx context.Context, w way) error {
	name := "bench-" + string(w)
	if err := b.first().Dynamic.Resource(harness.Rules()).Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		return err
	}
	for _, c := range b.fleet.Clusters {
		_, err := harness.Wait(ctx, name+" gone in "+c.Name, within, func(ctx context.Context) error {
			_, err := c.Dynamic.Resource(harness.Rules()).Get(ctx, name, metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				return nil
			}
			if err == nil {
				err = errThere
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}
