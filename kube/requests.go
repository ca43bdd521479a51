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

// ErrNoPrecondition is returned when an object to be updated or deleted does not say, by uid and
// resourceVersion, which state of which object is meant.
var ErrNoPrecondition = errors.New("object without uid and resourceVersion")

// Create creates obj and returns it as stored. Like every method of this file it sends one
// request, and the first use of a kind one more to find out where it is served. API errors stay
// visible to apierrors; ErrKindUnknown, ErrForbidden, ErrUnauthorized and ErrUnreachable to errors.
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

// Update replaces the object that has obj's uid and resourceVersion. When it has changed meanwhile
// or is another object of that name, the error is a conflict.
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
// kind whose status is no subresource it is Update, which takes one request more to find out.
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
	if apierrors.IsNotFound(err) { // it may also be the object that is gone: then Update says so
		return c.Update(ctx, obj)
	}
	return out, c.outcome(err, obj.GroupVersionKind())
}

// Delete deletes the object that has obj's uid and resourceVersion; else the error is a conflict.
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

// Read reads one object as it is now, past every cache.
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

// outcome classifies the error of a request, and forgets where a kind was when it is gone.
func (c *Client) outcome(err error, gvk schema.GroupVersionKind) error {
	if err == nil {
		return nil
	}
	if kindGone(err) {
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
