// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Attributes are one permission: to do Verb to the objects of a kind in Namespace, or, when that is
// empty, in all namespaces.
type Attributes struct {
	Verb      string
	GVK       schema.GroupVersionKind
	Namespace string
}

// MissingRights asks the API server which permissions the client has (SelfSubjectAccessReview) and
// returns those that are missing, in the order of rights, each as text for a condition: "list secrets
// in namespace a". It sends one request for each, several at a time. ErrKindUnknown when a kind is
// not served.
func (c *Client) MissingRights(ctx context.Context, rights []Attributes) (missing []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	missingOrEmpty := make([]string, len(rights))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(8)
	for i, right := range rights {
		group.Go(func() error {
			var err error
			missingOrEmpty[i], err = c.missingRight(ctx, right)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	for _, right := range missingOrEmpty {
		if right != "" {
			missing = append(missing, right)
		}
	}
	return missing, nil
}

// missingRight returns the permission as text, or "" where the client has it.
func (c *Client) missingRight(ctx context.Context, right Attributes) (string, error) {
	res, err := c.kinds.find(ctx, right.GVK)
	if err != nil {
		return "", err
	}
	ok, err := c.allowed(ctx, res, right.Verb, right.Namespace)
	if ok || err != nil {
		return "", err
	}
	text := []string{right.Verb, res.GroupResource().String()}
	switch {
	case !res.namespaced:
	case right.Namespace != "":
		text = append(text, "in namespace", right.Namespace)
	default:
		text = append(text, "in all namespaces")
	}
	return strings.Join(text, " "), nil
}

// MissingVerbs returns the resource of a kind, which of the verbs the client may not do to it, and in which of the
// namespaces; no namespaces means all of them. Where there are several, it asks about all namespaces first, and about
// each only when that is denied. ErrKindUnknown when the kind is not served.
func (c *Client) MissingVerbs(ctx context.Context, gvk schema.GroupVersionKind, namespaces, verbs []string) (resource schema.GroupResource, missing, in []string, err error) {
	res, err := c.kinds.find(ctx, gvk)
	if err != nil {
		return resource, nil, nil, err
	}
	if !res.namespaced {
		namespaces = nil
	}
	for _, verb := range verbs {
		var ok bool
		if len(namespaces) != 1 {
			if ok, err = c.allowed(ctx, res, verb, ""); err != nil {
				return resource, nil, nil, err
			}
		}
		if ok {
			continue
		}
		denied := len(namespaces) == 0
		for _, namespace := range namespaces {
			if ok, err = c.allowed(ctx, res, verb, namespace); err != nil {
				return resource, nil, nil, err
			}
			if denied = denied || !ok; !ok && !slices.Contains(in, namespace) {
				in = append(in, namespace)
			}
		}
		if denied {
			missing = append(missing, verb)
		}
	}
	return res.GroupResource(), missing, in, nil
}

// allowed asks about one verb, in all namespaces when namespace is empty. A verb on a subresource is written
// update/status.
func (c *Client) allowed(ctx context.Context, res resource, verb, namespace string) (bool, error) {
	if !res.namespaced {
		namespace = ""
	}
	verb, subresource, _ := strings.Cut(verb, "/")
	var review struct {
		Status struct {
			Allowed bool `json:"allowed"`
		} `json:"status"`
	}
	err := c.post(ctx, map[string]any{
		"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
		"spec": map[string]any{"resourceAttributes": map[string]string{
			"verb": verb, "subresource": subresource, "group": res.Group, "version": res.Version, "resource": res.Resource, "namespace": namespace,
		}},
	}, &review, "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews")
	if err != nil {
		return false, classify(err)
	}
	return review.Status.Allowed, nil
}
