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

// WatchNodes calls changed with all nodes, reduced to the fields of Node, once they have
// been listed and whenever one of those fields changes; the nodes' heartbeats do not count. Calls
// come from one goroutine, and the nodes must not be changed.
//
// It blocks until ctx ends and bridges outages by itself. It returns early only for what does not
// mend by itself: ErrForbidden or ErrUnauthorized. The caller reports that and tries again later.
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
		s.tell()
	}
}

func (s *nodeSink) Upsert(obj *unstructured.Unstructured) {
	n := nodeOf(obj)
	if reflect.DeepEqual(s.nodes[n.Name], n) {
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
		s.stop(err)
	}
}

func (s *nodeSink) tell() { s.changed(slices.Collect(maps.Values(s.nodes))) }

// trimNode reduces a node as it comes in, so that a list of thousands is never held.
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
