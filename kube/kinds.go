// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"fmt"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/roster-mesh/roster/kube/codec"
)

// resource is where an API server serves a kind.
type resource struct {
	schema.GroupVersionResource
	namespaced bool
}

// kinds is the REST mapper of one API server. When a kind is first used it asks discovery for the one
// group and version of that kind, and caches the result. An agent has one per peer; full discovery
// documents of all of them would be most of its memory. A kind that was not found is not cached, and
// nothing is polled.
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
	err := decodeResponse(k.client.Get().AbsPath(path).Do(ctx), &list)
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
		gvk = cloneGVK(gvk)
		res := resource{gvk.GroupVersion().WithResource(r.Name), r.Namespaced}
		k.mu.Lock()
		k.found[gvk] = res
		k.mu.Unlock()
		return res, nil
	}
	return resource{}, &fault{ErrKindUnknown, describeKind(gvk), nil}
}

// forget makes the next find ask discovery again: a request for the resource got a 404.
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

// at returns the client for the objects of a resource, in protobuf where that is possible. Watch and the single requests
// all use it.
func (c *Client) at(res resource, namespace string) dynamic.ResourceInterface {
	client := c.dynamic.Resource(res.GroupVersionResource)
	switch {
	case codec.SupportsProtobuf(res.GroupVersionResource):
		inProtobuf := c.protobuf.Resource(res.GroupVersionResource)
		return c.codec.PreferProtobuf(inProtobuf.Namespace(namespace), client.Namespace(namespace))
	case res.namespaced:
		return client.Namespace(namespace)
	}
	return client
}

// cloneGVK copies the strings of a kind. They may be part of a larger one, such as a whole object, which would be kept in
// memory with them.
func cloneGVK(gvk schema.GroupVersionKind) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: strings.Clone(gvk.Group), Version: strings.Clone(gvk.Version), Kind: strings.Clone(gvk.Kind)}
}
