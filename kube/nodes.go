// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"errors"
	"maps"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// WatchNodes calls changed with all nodes, reduced to the fields of Node, after the first list and
// whenever one of those fields changes; heartbeats do not change them. The calls come from one
// goroutine, and the nodes must not be modified.
//
// It blocks until ctx ends, and resumes after outages. It returns earlier only with an error that a
// person has to fix: ErrForbidden or ErrUnauthorized. The caller reports that and tries again later.
func WatchNodes(ctx context.Context, c *Client, changed func([]*Node)) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	sink := &nodeSink{changed: changed, stop: cancel}
	err := c.Watch(ctx, WatchOptions{
		GVK:  schema.GroupVersionKind{Version: "v1", Kind: "Node"},
		trim: trimNode,
	}, sink)
	if sink.err != nil {
		return sink.err
	}
	return err
}

// nodeSink holds the trimmed nodes.
type nodeSink struct {
	changed func([]*Node)
	stop    context.CancelCauseFunc
	nodes   map[string]*Node
	err     error
}

func (s *nodeSink) Replace(objs []*unstructured.Unstructured, _ string) {
	nodes := make(map[string]*Node, len(objs))
	for _, obj := range objs {
		n := nodeOf(obj)
		nodes[n.Name] = n
	}
	if s.nodes == nil || !reflect.DeepEqual(s.nodes, nodes) {
		s.nodes = nodes
		s.notify()
	}
}

func (s *nodeSink) Upsert(obj *unstructured.Unstructured) {
	n := nodeOf(obj)
	if reflect.DeepEqual(s.nodes[n.Name], n) {
		return
	}
	s.nodes[n.Name] = n
	s.notify()
}

func (s *nodeSink) Delete(_, name string, _ *unstructured.Unstructured) {
	delete(s.nodes, name)
	s.notify()
}

func (s *nodeSink) Health(err error) {
	if errors.Is(err, ErrForbidden) || errors.Is(err, ErrUnauthorized) {
		s.err = err
		s.stop(err)
	}
}

func (s *nodeSink) notify() { s.changed(slices.Collect(maps.Values(s.nodes))) }

// trimNode reduces a node as soon as it is decoded, so that thousands of whole nodes are never in memory.
func trimNode(obj *unstructured.Unstructured) {
	n := nodeOf(obj)
	gvk, resourceVersion := obj.GroupVersionKind(), obj.GetResourceVersion()
	var addresses, conditions []any
	add := func(kind string, ips []string) {
		for _, ip := range ips {
			addresses = append(addresses, map[string]any{"type": kind, "address": ip})
		}
	}
	add("ExternalIP", n.ExternalIPs)
	add("InternalIP", n.InternalIPs)
	if n.Ready {
		conditions = append(conditions, map[string]any{"type": "Ready", "status": "True"})
	}
	obj.Object = map[string]any{
		"spec": map[string]any{"providerID": n.ProviderID},
		"status": map[string]any{
			"nodeInfo": map[string]any{
				"kubeletVersion": n.KubeletVersion, "kubeProxyVersion": n.KubeProxyVersion, "osImage": n.OSImage,
			},
			"addresses": addresses, "conditions": conditions,
		},
	}
	obj.SetGroupVersionKind(gvk)
	obj.SetResourceVersion(resourceVersion)
	obj.SetName(n.Name)
	obj.SetLabels(n.Labels)
	obj.SetAnnotations(n.Annotations)
}
