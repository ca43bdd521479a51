// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package notify

import "k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

// Sink only wants to know that something happened: it is a Sink of package engine. It runs while Stop is set.
type Sink struct {
	Notify func(obj *unstructured.Unstructured) // nil object: it was deleted, or there is none
	Stop   func()
}

// Replace implements engine.Sink.
func (s *Sink) Replace(objs []*unstructured.Unstructured, _ string) {
	if len(objs) == 0 {
		s.Notify(nil)
	}
	for _, obj := range objs {
		s.Notify(obj)
	}
}

// Upsert implements engine.Sink.
func (s *Sink) Upsert(obj *unstructured.Unstructured) { s.Notify(obj) }

// Delete implements engine.Sink.
func (s *Sink) Delete(string, string, *unstructured.Unstructured) { s.Notify(nil) }

// Health implements engine.Sink.
func (*Sink) Health(error) {}
