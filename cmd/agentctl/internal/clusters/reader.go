// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"context"
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/roster-mesh/roster/syncrules"
)

const (
	// pageSize and MaxListed bound what is read of one kind in one cluster.
	pageSize = 250
	// MaxListed is the number of objects after which List stops.
	MaxListed = 5000
)

// Reader reads objects of any kind of one cluster. It remembers which kinds are served.
type Reader struct {
	*Client

	kinds *kinds
	lists sync.Map // of *listing, by what is listed
}

// listing is what a list was, for those that ask again.
type listing struct {
	once    sync.Once
	objects []*unstructured.Unstructured
	whole   bool
	err     error
}

// ListOnce is List that asks once. Nobody may change the objects.
func (r *Reader) ListOnce(ctx context.Context, gvk schema.GroupVersionKind, scope syncrules.Scope) (out []*unstructured.Unstructured, whole bool, err error) {
	known, _ := r.lists.LoadOrStore(fmt.Sprint(gvk, scope), &listing{})
	l, _ := known.(*listing)
	l.once.Do(func() { l.objects, l.whole, l.err = r.List(ctx, gvk, scope) })
	return l.objects, l.whole, l.err
}

// NewReader returns a reader. It asks nothing yet.
func NewReader(c *Client) *Reader {
	return &Reader{Client: c, kinds: &kinds{client: c, lists: map[schema.GroupVersion][]metav1.APIResource{}}}
}

// IsNamespaced says whether objects of a kind are in namespaces; kube.ErrKindUnknown where the kind is not served.
func (r *Reader) IsNamespaced(ctx context.Context, gvk schema.GroupVersionKind) (bool, error) {
	s, err := r.kinds.find(ctx, gvk)
	return s.namespaced, err
}

// Namespaced is IsNamespaced in the form that syncrules.Input asks for: pure functions take no context. A request that it
// takes is bounded in time as all others are.
func (r *Reader) Namespaced(gvk schema.GroupVersionKind) (bool, error) {
	return r.IsNamespaced(context.Background(), gvk)
}

// ParseKind reads a kind as kubectl does: secret, secrets, Secret, cm, deployments.apps, deployments.v1.apps.
func (r *Reader) ParseKind(ctx context.Context, arg string) (schema.GroupVersionKind, error) {
	gvk, found, err := r.kinds.parse(ctx, arg)
	if err != nil {
		return gvk, r.Errorf("find out what kind %q is: %w", arg, err)
	}
	if !found {
		return gvk, fmt.Errorf("context %s has no kind %q; `kubectl api-resources` lists what there is", r.Context, arg)
	}
	return gvk, nil
}

// Objects are those of a kind, in a namespace if the kind has them.
func (r *Reader) Objects(ctx context.Context, gvk schema.GroupVersionKind, namespace string) (dynamic.ResourceInterface, error) {
	s, err := r.kinds.find(ctx, gvk)
	if err != nil {
		return nil, err
	}
	if s.namespaced {
		return r.Dynamic.Resource(s.GroupVersionResource).Namespace(namespace), nil
	}
	return r.Dynamic.Resource(s.GroupVersionResource), nil
}

// Get reads an object; nil when it is not there.
func (r *Reader) Get(ctx context.Context, at syncrules.Place) (*unstructured.Unstructured, error) {
	objects, err := r.Objects(ctx, at.GroupVersionKind, at.Namespace)
	if err != nil {
		return nil, err
	}
	obj, err := objects.Get(ctx, at.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return obj, err
}

// List reads the objects of a scope; whole is false when there are more than are read.
func (r *Reader) List(ctx context.Context, gvk schema.GroupVersionKind, scope syncrules.Scope) (out []*unstructured.Unstructured, whole bool, err error) {
	objects, err := r.Objects(ctx, gvk, scope.Namespace)
	if err != nil {
		return nil, false, err
	}
	options := metav1.ListOptions{Limit: pageSize, LabelSelector: scope.LabelSelector, FieldSelector: scope.FieldSelector}
	for {
		page, err := objects.List(ctx, options)
		if err != nil {
			return nil, false, err
		}
		for i := range page.Items {
			item := &page.Items[i]
			item.SetGroupVersionKind(gvk) // what a list holds does not always say what it is
			out = append(out, item)
		}
		switch options.Continue = page.GetContinue(); {
		case options.Continue == "":
			return out, true, nil
		case len(out) >= MaxListed:
			return out, false, nil
		}
	}
}
