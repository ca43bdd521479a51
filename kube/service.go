// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"errors"
	"reflect"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Types of Services.
const (
	ServiceLoadBalancer = "LoadBalancer"
	ServiceNodePort     = "NodePort"
	ServiceClusterIP    = "ClusterIP"
)

// Service has the fields of a Service that say how it is reached from outside of its cluster.
type Service struct {
	Spec struct {
		Type        string        `json:"type"`
		ExternalIPs []string      `json:"externalIPs"`
		Ports       []ServicePort `json:"ports"`
	} `json:"spec"`
	Status struct {
		LoadBalancer struct {
			Ingress []Ingress `json:"ingress"`
		} `json:"loadBalancer"`
	} `json:"status"`
}

// ServicePort is one port of a Service.
type ServicePort struct {
	Name     string `json:"name"`
	Port     int32  `json:"port"`
	NodePort int32  `json:"nodePort"`
}

// Ingress is one address of a load balancer; it has an IP, a hostname, or both.
type Ingress struct {
	IP       string `json:"ip"`
	Hostname string `json:"hostname"`
}

// WatchService calls changed with one Service, or nil when it does not exist, after the first list and whenever a field of
// Service changes. The calls come from one goroutine, and the Service must not be modified. It needs permission to list
// and watch this one name.
//
// Like WatchNodes it returns earlier only with an error that a person has to fix.
func WatchService(ctx context.Context, c *Client, name types.NamespacedName, changed func(*Service)) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	sink := &serviceSink{changed: changed, stop: cancel}
	err := c.Watch(ctx, WatchOptions{
		GVK: schema.GroupVersionKind{Version: "v1", Kind: "Service"}, Namespace: name.Namespace,
		FieldSelector: fields.OneTermEqualSelector("metadata.name", name.Name).String(),
	}, sink)
	if sink.err != nil {
		return sink.err
	}
	return err
}

type serviceSink struct {
	changed func(*Service)
	stop    context.CancelCauseFunc
	known   bool
	last    *Service
	err     error
}

func (s *serviceSink) Replace(objs []*unstructured.Unstructured, _ string) {
	if len(objs) == 0 {
		s.notify(nil)
		return
	}
	s.Upsert(objs[0])
}

func (s *serviceSink) Upsert(obj *unstructured.Unstructured) {
	now := &Service{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, now); err != nil {
		now = nil // not in the form of a Service
	}
	s.notify(now)
}

func (s *serviceSink) Delete(string, string, *unstructured.Unstructured) { s.notify(nil) }

func (s *serviceSink) Health(err error) {
	if errors.Is(err, ErrForbidden) || errors.Is(err, ErrUnauthorized) {
		s.err = err
		s.stop(err)
	}
}

func (s *serviceSink) notify(now *Service) {
	if s.known && reflect.DeepEqual(s.last, now) {
		return
	}
	s.known, s.last = true, now
	s.changed(now)
}
