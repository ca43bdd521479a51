// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"strings"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Attributes name one right: to do Verb to the objects of a kind in Namespace, or, when that is
// empty, in all namespaces.
type Attributes struct {
	Verb      string
	GVK       schema.GroupVersionKind
	Namespace string
}

// Allowed asks the API server which of the rights the client has and returns those that are
// missing, in the order asked, each in words for a condition: "list secrets in namespace a". It
// sends one request for each right, several at a time. ErrKindUnknown when a kind is not served.
func (c *Client) Allowed(ctx context.Context, rights []Attributes) (missing []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	denied := make([]string, len(rights))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(8)
	for i, right := range rights {
		group.Go(func() error {
			var err error
			denied[i], err = c.denied(ctx, right)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	for _, right := range denied {
		if right != "" {
			missing = append(missing, right)
		}
	}
	return missing, nil
}

// denied returns "" or the right in words.
func (c *Client) denied(ctx context.Context, right Attributes) (string, error) {
	res, err := c.kinds.find(ctx, right.GVK)
	if err != nil {
		return "", err
	}
	namespace := right.Namespace
	if !res.namespaced {
		namespace = ""
	}
	var review struct {
		Status struct {
			Allowed bool `json:"allowed"`
		} `json:"status"`
	}
	err = c.post(ctx, map[string]any{
		"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
		"spec": map[string]any{"resourceAttributes": map[string]string{
			"verb": right.Verb, "group": res.Group, "version": res.Version, "resource": res.Resource, "namespace": namespace,
		}},
	}, &review, "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews")
	if err != nil {
		return "", classify(err)
	}
	if review.Status.Allowed {
		return "", nil
	}
	words := []string{right.Verb, res.GroupResource().String()}
	switch {
	case namespace != "":
		words = append(words, "in namespace", namespace)
	case res.namespaced:
		words = append(words, "in all namespaces")
	}
	return strings.Join(words, " "), nil
}
