// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// fieldManager is the name under which an agent's writes appear in managedFields.
const fieldManager = "roster"

// ErrNoPrecondition is returned when an object to be updated or deleted has no uid or no
// resourceVersion: these are the preconditions of the request.
var ErrNoPrecondition = errors.New("object without uid and resourceVersion")

// Create creates obj and returns it as stored. Like every method of this file it sends one
// request, and with the first use of a kind one more, for discovery. API errors stay visible to
// apierrors; ErrKindUnknown, ErrForbidden, ErrUnauthorized and ErrUnreachable to errors.Is.
func (c *Client) Create(ctx context.Context, obj *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	objects, err := c.objects(ctx, obj.GroupVersionKind(), obj.GetNamespace())
	if err != nil {
		return nil, err
	}
	out, err := objects.Create(ctx, obj, metav1.CreateOptions{FieldManager: fieldManager})
	return out, c.outcome(err, obj.GroupVersionKind())
}

// Update replaces the object that has obj's uid and resourceVersion. When that was changed meanwhile, or
// is another object of the same name, the error is a conflict.
func (c *Client) Update(ctx context.Context, obj *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	if err := checkPrecondition(obj); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	objects, err := c.objects(ctx, obj.GroupVersionKind(), obj.GetNamespace())
	if err != nil {
		return nil, err
	}
	out, err := objects.Update(ctx, obj, metav1.UpdateOptions{FieldManager: fieldManager})
	return out, c.outcome(err, obj.GroupVersionKind())
}

// UpdateStatus replaces the status, and nothing else, of the object that has obj's uid and resourceVersion. For a
// kind without the status subresource it calls Update, after one request more.
func (c *Client) UpdateStatus(ctx context.Context, obj *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	if err := checkPrecondition(obj); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	objects, err := c.objects(ctx, obj.GroupVersionKind(), obj.GetNamespace())
	if err != nil {
		return nil, err
	}
	out, err := objects.UpdateStatus(ctx, obj, metav1.UpdateOptions{FieldManager: fieldManager})
	if apierrors.IsNotFound(err) { // no status subresource, or no object: then Update returns that
		return c.Update(ctx, obj)
	}
	return out, c.outcome(err, obj.GroupVersionKind())
}

// Delete deletes the object that has obj's uid and resourceVersion; otherwise the error is a conflict.
func (c *Client) Delete(ctx context.Context, obj *unstructured.Unstructured) error {
	if err := checkPrecondition(obj); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	objects, err := c.objects(ctx, obj.GroupVersionKind(), obj.GetNamespace())
	if err != nil {
		return err
	}
	uid, resourceVersion := obj.GetUID(), obj.GetResourceVersion()
	background := metav1.DeletePropagationBackground
	err = objects.Delete(ctx, obj.GetName(), metav1.DeleteOptions{
		Preconditions:     &metav1.Preconditions{UID: &uid, ResourceVersion: &resourceVersion},
		PropagationPolicy: &background,
	})
	return c.outcome(err, obj.GroupVersionKind())
}

// Read reads one object as it is now, not from a cache.
func (c *Client) Read(ctx context.Context, gvk schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	objects, err := c.objects(ctx, gvk, namespace)
	if err != nil {
		return nil, err
	}
	out, err := objects.Get(ctx, name, metav1.GetOptions{})
	return out, c.outcome(err, gvk)
}

// outcome classifies the error of a request, and forgets the resource of a kind that is not served any more.
func (c *Client) outcome(err error, gvk schema.GroupVersionKind) error {
	if err == nil {
		return nil
	}
	if isKindNotServed(err) {
		c.kinds.forget(gvk)
		return &fault{ErrKindUnknown, describeKind(gvk), err}
	}
	return classify(err)
}

func checkPrecondition(obj *unstructured.Unstructured) error {
	if obj.GetUID() == "" || obj.GetResourceVersion() == "" {
		return fmt.Errorf("%s %s/%s: %w", obj.GetKind(), obj.GetNamespace(), obj.GetName(), ErrNoPrecondition)
	}
	return nil
}
