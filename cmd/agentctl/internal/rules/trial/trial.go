// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package trial writes to an API server by dry run: it says what it would make of a copy, and keeps nothing. It gets the whole
// copy, so only a server that the user named is asked.
package trial

import (
	"context"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/clusters"
	"github.com/roster-mesh/roster/syncrules"
)

// Run asks the API server what it would make of a write, which it does not keep.
func Run(ctx context.Context, r *clusters.Reader, d syncrules.Decision) (*unstructured.Unstructured, error) {
	objects, err := r.Objects(ctx, d.Object.GroupVersionKind(), d.Object.GetNamespace())
	if err != nil {
		return nil, err
	}
	all := []string{metav1.DryRunAll}
	update := metav1.UpdateOptions{DryRun: all, FieldManager: "roster"}
	switch d.Action {
	case syncrules.Create:
		return objects.Create(ctx, d.Object, metav1.CreateOptions{DryRun: all, FieldManager: "roster"})
	case syncrules.UpdateStatus:
		answer, err := objects.UpdateStatus(ctx, d.Object, update)
		if !apierrors.IsNotFound(err) {
			return answer, err
		}
		// The kind has no status subresource: its status is a field like others.
	default:
	}
	return objects.Update(ctx, d.Object, update)
}

// NamespaceMissing tells whether a write was refused because its namespace does not exist.
func NamespaceMissing(err error) bool {
	var status apierrors.APIStatus
	return apierrors.IsNotFound(err) && errors.As(err, &status) &&
		status.Status().Details != nil && status.Status().Details.Kind == "namespaces"
}
