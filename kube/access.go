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

// Attributes name one right: to do Verb to the objects of a kind in Namespace, or, when that is
// empty, in all namespaces.
type Attributes struct {
	Verb      string
	GVK       schema.GroupVersionKind
	Namespace string
}

// MissingRights asks the API server which of the rights the client has and returns those that are
// missing, in the order asked, each in words for a condition: "list secrets in namespace a". It
// sends one request for each right, several at a time. ErrKindUnknown when a kind is not served.
func (c *Client) MissingRights(ctx context.Context, rights []Attributes) (missing []string, err error) {
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
	allowed, err := c.may(ctx, res, right.Verb, right.Namespace)
	if allowed || err != nil {
		return "", err
	}
	words := []string{right.Verb, res.GroupResource().String()}
	switch {
	case !res.namespaced:
	case right.Namespace != "":
		words = append(words, "in namespace", right.Namespace)
	default:
		words = append(words, "in all namespaces")
	}
	return strings.Join(words, " "), nil
}

// MissingVerbs returns what RBAC calls a kind, which of the verbs the client lacks on it, and in which of the namespaces;
// no namespaces means all of them. Of several, who may do something in all namespaces is not asked about each.
// ErrKindUnknown when the kind is not served.
func (c *Client) MissingVerbs(ctx context.Context, gvk schema.GroupVersionKind, namespaces, verbs []string) (resource schema.GroupResource, missing, in []string, err error) {
	res, err := c.kinds.find(ctx, gvk)
	if err != nil {
		return resource, nil, nil, err
	}
	if !res.namespaced {
		namespaces = nil
	}
	for _, verb := range verbs {
		var allowed bool
		if len(namespaces) != 1 {
			if allowed, err = c.may(ctx, res, verb, ""); err != nil {
				return resource, nil, nil, err
			}
		}
		if allowed {
			continue
		}
		lacks := len(namespaces) == 0
		for _, namespace := range namespaces {
			if allowed, err = c.may(ctx, res, verb, namespace); err != nil {
				return resource, nil, nil, err
			}
			if lacks = lacks || !allowed; !allowed && !slices.Contains(in, namespace) {
				in = append(in, namespace)
			}
		}
		if lacks {
			missing = append(missing, verb)
		}
	}
	return res.GroupResource(), missing, in, nil
}

// may asks about one verb, in all namespaces when namespace is empty. A verb on a subresource is written
// update/status.
func (c *Client) may(ctx context.Context, res resource, verb, namespace string) (bool, error) {
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
