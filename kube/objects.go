// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// Secret is a Secret of Kubernetes, with all its fields: nothing is lost when one is read and written back.
type Secret struct {
	metav1.ObjectMeta `json:"metadata"`

	Type      string            `json:"type,omitempty"`
	Data      map[string][]byte `json:"data,omitempty"`
	Immutable *bool             `json:"immutable,omitempty"`
}

// Objects reads and writes the objects of one kind as values of type T, in one namespace where the
// kind has namespaces. Every method is one request; errors are as with Client.Create. It needs
// no discovery, unlike Client.Create: an agent always has these kinds.
type Objects[T any] struct {
	client    *Client
	kind      schema.GroupVersionKind
	at        resource
	namespace string
}

// ObjectsOf are the objects of a kind, whose name in URLs is plural; namespace is "" for a cluster-scoped one.
func ObjectsOf[T any](c *Client, kind schema.GroupVersionKind, plural, namespace string) Objects[T] {
	return Objects[T]{client: c, kind: kind, namespace: namespace, at: resource{kind.GroupVersion().WithResource(plural), namespace != ""}}
}

// Clusters are the API server's Cluster objects.
func (c *Client) Clusters() Objects[v1alpha1.Cluster] {
	return ObjectsOf[v1alpha1.Cluster](c, v1alpha1.SchemeGroupVersion.WithKind("Cluster"), "clusters", "")
}

// Rules are the API server's ResourceSyncRules.
func (c *Client) Rules() Objects[v1alpha1.ResourceSyncRule] {
	return ObjectsOf[v1alpha1.ResourceSyncRule](c, v1alpha1.SchemeGroupVersion.WithKind("ResourceSyncRule"), "resourcesyncrules", "")
}

// Features are the API server's ClusterFeatures.
func (c *Client) Features() Objects[v1alpha1.ClusterFeature] {
	return ObjectsOf[v1alpha1.ClusterFeature](c, v1alpha1.SchemeGroupVersion.WithKind("ClusterFeature"), "clusterfeatures", "")
}

// Secrets are the Secrets of a namespace.
func (c *Client) Secrets(namespace string) Objects[Secret] {
	return ObjectsOf[Secret](c, schema.GroupVersionKind{Version: "v1", Kind: "Secret"}, "secrets", namespace)
}

// Read reads one object.
func (o Objects[T]) Read(ctx context.Context, name string) (*T, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	got, err := o.client.at(o.at, o.namespace).Get(ctx, name, metav1.GetOptions{})
	return o.decode(got, err)
}

// List reads all objects.
func (o Objects[T]) List(ctx context.Context) ([]*T, error) {
	ctx, cancel := context.WithTimeout(ctx, pageTimeout)
	defer cancel()
	list, err := o.client.at(o.at, o.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, classify(err)
	}
	out := make([]*T, len(list.Items))
	for i := range list.Items {
		if out[i], err = o.decode(&list.Items[i], nil); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Kind is the kind of the objects.
func (o Objects[T]) Kind() schema.GroupVersionKind { return o.kind }

// Create creates obj and returns it as stored.
func (o Objects[T]) Create(ctx context.Context, obj *T) (*T, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	u, err := o.encode(obj)
	if err != nil {
		return nil, err
	}
	got, err := o.client.at(o.at, o.namespace).Create(ctx, u, metav1.CreateOptions{})
	return o.decode(got, err)
}

// Update replaces the object when it still has obj's resourceVersion. It is for types such as Secret that have all fields.
func (o Objects[T]) Update(ctx context.Context, obj *T) (*T, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	u, err := o.encode(obj)
	if err != nil {
		return nil, err
	}
	got, err := o.client.at(o.at, o.namespace).Update(ctx, u, metav1.UpdateOptions{})
	return o.decode(got, err)
}

// Apply is Create by server-side apply, which RBAC can allow for one name. A field that somebody else set is a conflict.
func (o Objects[T]) Apply(ctx context.Context, obj *T) (*T, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	u, err := o.encode(obj)
	if err != nil {
		return nil, err
	}
	got, err := o.client.at(o.at, o.namespace).Apply(ctx, u.GetName(), u, metav1.ApplyOptions{FieldManager: fieldManager})
	return o.decode(got, err)
}

// Change writes the difference between was, as it was read, and now as a JSON merge patch, except for the status, when the
// object still has was's resourceVersion. Fields that a newer CRD has and T does not have are not changed; a list is
// written as a whole.
func (o Objects[T]) Change(ctx context.Context, was, now *T) (*T, error) {
	return o.change(ctx, was, now)
}

// ChangeStatus is Change of the status.
func (o Objects[T]) ChangeStatus(ctx context.Context, was, now *T) (*T, error) {
	return o.change(ctx, was, now, "status")
}

func (o Objects[T]) change(ctx context.Context, was, now *T, subresources ...string) (*T, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	before, err := o.encode(was)
	if err != nil {
		return nil, err
	}
	after, err := o.encode(now)
	if err != nil {
		return nil, err
	}
	patch := &unstructured.Unstructured{Object: difference(before.Object, after.Object)}
	patch.SetGroupVersionKind(o.kind)
	patch.SetName(before.GetName())
	patch.SetUID(before.GetUID())
	patch.SetResourceVersion(before.GetResourceVersion())
	data, err := json.Marshal(patch.Object)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", describeKind(o.kind), err)
	}
	got, err := o.client.at(o.at, o.namespace).Patch(ctx, before.GetName(), types.MergePatchType, data, metav1.PatchOptions{FieldManager: fieldManager}, subresources...)
	return o.decode(got, err)
}

// difference is the JSON merge patch (RFC 7396) from was to now. A value of zero is always in it: was may have it because
// the object does not have the field.
func difference(was, now map[string]any) map[string]any {
	patch := map[string]any{}
	for name, value := range now {
		before, had := was[name]
		inner, ok := value.(map[string]any)
		outer, both := before.(map[string]any)
		switch {
		case ok && both:
			if inside := difference(outer, inner); len(inside) > 0 {
				patch[name] = inside
			}
		case !had || !equality.Semantic.DeepEqual(before, value), value == int64(0), value == false:
			patch[name] = value
		}
	}
	for name := range was {
		if _, has := now[name]; !has {
			patch[name] = nil
		}
	}
	return patch
}

// Delete deletes one object, with preconditions unless they are nil.
func (o Objects[T]) Delete(ctx context.Context, name string, preconditions *metav1.Preconditions) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	err := o.client.at(o.at, o.namespace).Delete(ctx, name, metav1.DeleteOptions{Preconditions: preconditions})
	return classify(err)
}

func (o Objects[T]) encode(obj *T) (*unstructured.Unstructured, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", describeKind(o.kind), err)
	}
	u := &unstructured.Unstructured{Object: content}
	u.SetGroupVersionKind(o.kind)
	return u, nil
}

func (o Objects[T]) decode(u *unstructured.Unstructured, err error) (*T, error) {
	if err != nil {
		return nil, classify(err)
	}
	return Decode[T](u)
}

// Decode converts an object, such as a Sink receives, to type T.
func Decode[T any](u *unstructured.Unstructured) (*T, error) {
	out := new(T)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, out); err != nil {
		return nil, fmt.Errorf("decode %s %s: %s", u.GetKind(), u.GetName(), oneLine(err.Error()))
	}
	return out, nil
}
