// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// The Target of a server.

func (s *server) request(verb string) error {
	s.requests[verb]++
	return s.down
}

// lateness is how long the answer to a write takes.
func (s *server) lateness(kind string) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return max(s.late, s.lateKinds[kind])
}

func resource(k Key) schema.GroupResource {
	return schema.GroupResource{Group: k.Group, Resource: strings.ToLower(k.Kind) + "s"}
}

func (s *server) Create(_ context.Context, obj *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	defer time.Sleep(s.lateness(obj.GetKind()))
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.request("create"); err != nil {
		return nil, err
	}
	k := serverKey(obj)
	if s.unserved[k.Kind] {
		return nil, ErrKindUnknown
	}
	if k.Namespace != "" && !s.namespaces[k.Namespace] {
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, k.Namespace)
	}
	if s.objects[k] != nil {
		return nil, apierrors.NewAlreadyExists(resource(k), k.Name)
	}
	return s.accept(obj)
}

func (s *server) accept(obj *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	obj = obj.DeepCopy()
	if s.admit != nil {
		if err := s.admit(obj); err != nil {
			return nil, err
		}
	}
	if s.statuses[obj.GetKind()] {
		delete(obj.Object, "status")
		if old := s.objects[serverKey(obj)]; old != nil && old.Object["status"] != nil {
			obj.Object["status"] = old.DeepCopy().Object["status"]
		}
	}
	return s.store(obj), nil
}

func (s *server) current(obj *unstructured.Unstructured) error {
	k := serverKey(obj)
	old := s.objects[k]
	if old == nil {
		return apierrors.NewNotFound(resource(k), k.Name)
	}
	if obj.GetUID() != old.GetUID() || obj.GetResourceVersion() != old.GetResourceVersion() {
		return apierrors.NewConflict(resource(k), k.Name, fmt.Errorf("it has version %s", old.GetResourceVersion()))
	}
	return nil
}

func (s *server) Update(_ context.Context, obj *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	defer time.Sleep(s.lateness(obj.GetKind()))
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.request("update"); err != nil {
		return nil, err
	}
	if err := s.current(obj); err != nil {
		return nil, err
	}
	return s.accept(obj)
}

// UpdateStatus changes the status alone; Create and Update leave it out, of the kinds in statuses.
func (s *server) UpdateStatus(_ context.Context, obj *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.request("status"); err != nil {
		return nil, err
	}
	if err := s.current(obj); err != nil {
		return nil, err
	}
	now := s.objects[serverKey(obj)].DeepCopy()
	now.Object["status"] = obj.Object["status"]
	if s.admit != nil {
		if err := s.admit(now); err != nil {
			return nil, err
		}
	}
	return s.store(now), nil
}

func (s *server) Delete(_ context.Context, obj *unstructured.Unstructured) error {
	defer time.Sleep(s.lateness(obj.GetKind()))
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.request("delete"); err != nil {
		return err
	}
	if err := s.current(obj); err != nil {
		return err
	}
	if old := s.objects[serverKey(obj)]; len(old.GetFinalizers()) > 0 {
		if going := old.DeepCopy(); going.GetDeletionTimestamp() == nil {
			now := metav1.Now()
			going.SetDeletionTimestamp(&now)
			s.store(going)
		}
		return nil
	}
	s.drop(serverKey(obj))
	return nil
}

func (s *server) Read(_ context.Context, gvk schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.request("read"); err != nil {
		return nil, err
	}
	k := Key{GroupKind: gvk.GroupKind(), Namespace: namespace, Name: name}
	if obj := s.objects[k]; obj != nil {
		return obj.DeepCopy(), nil
	}
	return nil, apierrors.NewNotFound(resource(k), name)
}

func errUnavailable() error {
	return apierrors.NewServiceUnavailable("it is down")
}

func errInvalid(k Key, value string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusUnprocessableEntity, Reason: metav1.StatusReasonInvalid,
		Message: fmt.Sprintf("%s is invalid: data[x]: Invalid value: %q", k, value),
		Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: metav1.CauseTypeFieldValueInvalid, Message: value, Field: "data[x]"}}},
	}}
}

func (s *server) names(kind string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for _, k := range slices.Collect(maps.Keys(s.objects)) {
		if k.Kind == kind {
			out = append(out, k.Name)
		}
	}
	slices.Sort(out)
	return out
}
