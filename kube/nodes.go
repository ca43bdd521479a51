// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"errors"
	"maps"
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// WatchNodes calls changed with all nodes, reduced to what DescribeCluster reads, once they have
// been listed and whenever one of those fields changes; the nodes' heartbeats do not count. Calls
// come from one goroutine, and the nodes must not be changed.
//
// It blocks until ctx ends and bridges outages by itself. It returns early only for what does not
// mend by itself: ErrForbidden or ErrUnauthorized. The caller reports that and tries again later.
func WatchNodes(ctx context.Context, c *Client, changed func([]*corev1.Node)) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	sink := &nodeSink{changed: changed, giveUp: cancel}
	err := c.Watch(ctx, WatchOptions{
		GVK:  corev1.SchemeGroupVersion.WithKind("Node"),
		trim: trimUnstructuredNode,
	}, sink)
	if sink.err != nil {
		return sink.err
	}
	return err
}

// nodeSink holds the trimmed nodes.
type nodeSink struct {
	changed func([]*corev1.Node)
	giveUp  context.CancelCauseFunc
	nodes   map[string]*corev1.Node
	err     error
}

func (s *nodeSink) Replace(objs []*unstructured.Unstructured, _ string) {
	nodes := make(map[string]*corev1.Node, len(objs))
	for _, obj := range objs {
		if n := nodeOf(obj); n != nil {
			nodes[n.Name] = n
		}
	}
	if s.nodes == nil || !reflect.DeepEqual(s.nodes, nodes) {
		s.nodes = nodes
		s.tell()
	}
}

func (s *nodeSink) Upsert(obj *unstructured.Unstructured) {
	n := nodeOf(obj)
	if n == nil || reflect.DeepEqual(s.nodes[n.Name], n) {
		return
	}
	s.nodes[n.Name] = n
	s.tell()
}

func (s *nodeSink) Delete(_, name string, _ *unstructured.Unstructured) {
	delete(s.nodes, name)
	s.tell()
}

func (s *nodeSink) Health(err error) {
	if errors.Is(err, ErrForbidden) || errors.Is(err, ErrUnauthorized) {
		s.err = err
		s.giveUp(err)
	}
}

func (s *nodeSink) tell() { s.changed(slices.Collect(maps.Values(s.nodes))) }

// trimUnstructuredNode reduces a node as it comes in, so that a list of thousands is never held.
func trimUnstructuredNode(obj *unstructured.Unstructured) {
	n := &corev1.Node{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, n); err != nil {
		return
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(trimNode(n))
	if err != nil {
		return
	}
	gvk, resourceVersion := obj.GroupVersionKind(), obj.GetResourceVersion()
	obj.Object = content
	obj.SetGroupVersionKind(gvk)
	obj.SetResourceVersion(resourceVersion)
}

func nodeOf(obj *unstructured.Unstructured) *corev1.Node {
	n := &corev1.Node{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, n); err != nil {
		return nil
	}
	return trimNode(n)
}
