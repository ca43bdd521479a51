// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// resource is where an API server serves a kind.
type resource struct {
	schema.GroupVersionResource
	namespaced bool
}

// kinds is the REST mapping of one API server. It asks for the one group and version that a kind
// is in, when the kind is first used, and remembers kinds that it found: there is an agent's worth
// of these per peer, and a full discovery document of each would be most of the agent's memory.
// Nothing is remembered of a kind that was not found, and nothing is polled.
type kinds struct {
	client rest.Interface

	mu    sync.Mutex
	found map[schema.GroupVersionKind]resource
}

func newKinds(client rest.Interface) *kinds {
	return &kinds{client: client, found: map[schema.GroupVersionKind]resource{}}
}

// find returns the resource of a kind, or ErrKindUnknown.
func (k *kinds) find(ctx context.Context, gvk schema.GroupVersionKind) (resource, error) {
	k.mu.Lock()
	res, ok := k.found[gvk]
	k.mu.Unlock()
	if ok {
		return res, nil
	}
	path := "/apis/" + gvk.GroupVersion().String()
	if gvk.Group == "" {
		path = "/api/" + gvk.Version
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	var list metav1.APIResourceList
	err := answer(k.client.Get().AbsPath(path).Do(ctx), &list)
	if apierrors.IsNotFound(err) {
		return resource{}, &fault{ErrKindUnknown, describeKind(gvk), err}
	}
	if err != nil {
		return resource{}, classify(err)
	}
	for _, r := range list.APIResources {
		if r.Kind != gvk.Kind || strings.Contains(r.Name, "/") {
			continue
		}
		gvk = ownCopy(gvk)
		res := resource{gvk.GroupVersion().WithResource(r.Name), r.Namespaced}
		k.mu.Lock()
		k.found[gvk] = res
		k.mu.Unlock()
		return res, nil
	}
	return resource{}, &fault{ErrKindUnknown, describeKind(gvk), nil}
}

// forget makes the next find ask again: a request for the resource was answered with 404.
func (k *kinds) forget(gvk schema.GroupVersionKind) {
	k.mu.Lock()
	delete(k.found, gvk)
	k.mu.Unlock()
}

func describeKind(gvk schema.GroupVersionKind) string {
	return fmt.Sprintf("%s in %s", gvk.Kind, gvk.GroupVersion())
}

// objects returns the client for the objects of a kind in a namespace; cluster-scoped kinds ignore
// the namespace.
func (c *Client) objects(ctx context.Context, gvk schema.GroupVersionKind, namespace string) (dynamic.ResourceInterface, error) {
	res, err := c.kinds.find(ctx, gvk)
	if err != nil {
		return nil, err
	}
	return c.at(res, namespace), nil
}

func (c *Client) at(res resource, namespace string) dynamic.ResourceInterface {
	client := c.dynamic.Resource(res.GroupVersionResource)
	switch {
	case inProtobuf(res.GroupVersionResource):
		short := c.protobuf.Resource(res.GroupVersionResource)
		return preferProtobuf{short.Namespace(namespace), client.Namespace(namespace), c.later}
	case res.namespaced:
		return client.Namespace(namespace)
	}
	return client
}

// preferProtobuf writes in JSON what cannot be said in protobuf, and reads in JSON from a server that is later than
// the program.
type preferProtobuf struct {
	dynamic.ResourceInterface

	json  dynamic.ResourceInterface
	later *atomic.Bool
}

// wantsJSON says that a request was refused because of how it was encoded, by us or by the server.
func wantsJSON(err error) bool {
	return errors.Is(err, errNotInProtobuf) || apierrors.IsUnsupportedMediaType(err)
}

// Get implements dynamic.ResourceInterface.
func (p preferProtobuf) Get(ctx context.Context, name string, o metav1.GetOptions, subresources ...string) (*unstructured.Unstructured, error) {
	if !p.later.Load() {
		if out, err := p.ResourceInterface.Get(ctx, name, o, subresources...); !p.later.Load() {
			return out, err
		}
	}
	return p.json.Get(ctx, name, o, subresources...)
}

// List implements dynamic.ResourceInterface.
func (p preferProtobuf) List(ctx context.Context, o metav1.ListOptions) (*unstructured.UnstructuredList, error) {
	if !p.later.Load() {
		if out, err := p.ResourceInterface.List(ctx, o); !p.later.Load() {
			return out, err
		}
	}
	return p.json.List(ctx, o)
}

// Watch implements dynamic.ResourceInterface.
func (p preferProtobuf) Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	if p.later.Load() {
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

// ownCopy does not keep in memory what the names of a kind were read from, which may be an object.
func ownCopy(gvk schema.GroupVersionKind) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: strings.Clone(gvk.Group), Version: strings.Clone(gvk.Version), Kind: strings.Clone(gvk.Kind)}
}
