// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import "k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

// notifySink is a Sink that only wants to know that something happened. It runs while stop is set.
type notifySink struct {
	notify func(obj *unstructured.Unstructured) // nil object: it was deleted
	stop   func()
}

// Replace implements Sink.
func (p *notifySink) Replace(objs []*unstructured.Unstructured, _ string) {
	if len(objs) == 0 {
		p.notify(nil)
	}
	for _, obj := range objs {
		p.notify(obj)
	}
}

// Upsert implements Sink.
func (p *notifySink) Upsert(obj *unstructured.Unstructured) { p.notify(obj) }

// Delete implements Sink.
func (p *notifySink) Delete(string, string, *unstructured.Unstructured) { p.notify(nil) }

// Health implements Sink.
func (*notifySink) Health(error) {}
