// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package rights asks an API server what the caller may do there, before a command begins that needs all of it.
package rights

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/clusters"
)

// Right is one that a command needs.
type Right struct{ Verb, Group, Resource, Namespace string }

func (r Right) String() string {
	text := r.Verb + " " + r.Resource
	if r.Group != "" {
		text += "." + r.Group
	}
	if r.Namespace != "" {
		text += " in namespace " + r.Namespace
	}
	return text
}

// Of are the rights to do each of the verbs to a resource.
func Of(resource schema.GroupVersionResource, namespace string, verbs ...string) []Right {
	out := make([]Right, 0, len(verbs))
	for _, verb := range verbs {
		out = append(out, Right{verb, resource.Group, resource.Resource, namespace})
	}
	return out
}

// Missing are those that the caller has not, as texts in their order.
func Missing(ctx context.Context, c *clusters.Client, needed []Right) ([]string, error) {
	reviews := c.Dynamic.Resource(schema.GroupVersionResource{Group: "authorization.k8s.io", Version: "v1", Resource: "selfsubjectaccessreviews"})
	var lacks []string
	for _, r := range needed {
		review := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
			"spec": map[string]any{"resourceAttributes": map[string]any{"verb": r.Verb, "group": r.Group, "resource": r.Resource, "namespace": r.Namespace}},
		}}
		answer, err := reviews.Create(ctx, review, metav1.CreateOptions{})
		if err != nil {
			return nil, err
		}
		if allowed, _, _ := unstructured.NestedBool(answer.Object, "status", "allowed"); !allowed {
			lacks = append(lacks, r.String())
		}
	}
	return lacks, nil
}
