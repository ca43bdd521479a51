// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package codec

import (
	"context"
	"errors"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
)

// PreferProtobuf joins two clients of the same objects into one that uses inProtobuf where it can, and else inJSON. Both
// use this Codec, and their resource is one that SupportsProtobuf is true of.
func (c *Codec) PreferProtobuf(inProtobuf, inJSON dynamic.ResourceInterface) dynamic.ResourceInterface {
	return preferProtobuf{inProtobuf, inJSON, &c.unknown}
}

// preferProtobuf writes in JSON what protobuf cannot hold, and reads in JSON from an API server that has sent fields
// which are not known here.
type preferProtobuf struct {
	dynamic.ResourceInterface // in protobuf

	json    dynamic.ResourceInterface
	unknown *atomic.Bool
}

// wantsJSON says whether a request was refused because of its encoding, here or by the API server.
func wantsJSON(err error) bool {
	return errors.Is(err, errNotInProtobuf) || apierrors.IsUnsupportedMediaType(err)
}

// Get implements dynamic.ResourceInterface.
func (p preferProtobuf) Get(ctx context.Context, name string, o metav1.GetOptions, subresources ...string) (*unstructured.Unstructured, error) {
	if !p.unknown.Load() {
		if out, err := p.ResourceInterface.Get(ctx, name, o, subresources...); !p.unknown.Load() {
			return out, err
		}
	}
	return p.json.Get(ctx, name, o, subresources...)
}

// List implements dynamic.ResourceInterface.
func (p preferProtobuf) List(ctx context.Context, o metav1.ListOptions) (*unstructured.UnstructuredList, error) {
	if !p.unknown.Load() {
		if out, err := p.ResourceInterface.List(ctx, o); !p.unknown.Load() {
			return out, err
		}
	}
	return p.json.List(ctx, o)
}

// Watch implements dynamic.ResourceInterface.
func (p preferProtobuf) Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	if p.unknown.Load() {
		return p.json.Watch(ctx, o)
	}
	return p.ResourceInterface.Watch(ctx, o)
}

// Delete implements dynamic.ResourceInterface.
func (p preferProtobuf) Delete(ctx context.Context, name string, o metav1.DeleteOptions, subresources ...string) error {
	err := p.ResourceInterface.Delete(ctx, name, o, subresources...)
	if wantsJSON(err) {
		return p.json.Delete(ctx, name, o, subresources...)
	}
	return err
}

// Create implements dynamic.ResourceInterface.
func (p preferProtobuf) Create(ctx context.Context, obj *unstructured.Unstructured, o metav1.CreateOptions, subresources ...string) (*unstructured.Unstructured, error) {
	out, err := p.ResourceInterface.Create(ctx, obj, o, subresources...)
	if wantsJSON(err) {
		return p.json.Create(ctx, obj, o, subresources...)
	}
	return out, err
}

// Update implements dynamic.ResourceInterface.
func (p preferProtobuf) Update(ctx context.Context, obj *unstructured.Unstructured, o metav1.UpdateOptions, subresources ...string) (*unstructured.Unstructured, error) {
	out, err := p.ResourceInterface.Update(ctx, obj, o, subresources...)
	if wantsJSON(err) {
		return p.json.Update(ctx, obj, o, subresources...)
	}
	return out, err
}
