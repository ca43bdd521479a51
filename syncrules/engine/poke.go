// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import "k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

// poke is a Sink that only wants to know that something happened. It runs while stop is set.
type poke struct {
	seen func(obj *unstructured.Unstructured) // nil object: it was deleted
	stop func()
}

// Replace implements Sink.
func (p *poke) Replace(objs []*unstructured.Unstructured, _ string) {
	if len(objs) == 0 {
		p.seen(nil)
	}
	for _, obj := range objs {
		p.seen(obj)
	}
}

// Upsert implements Sink.
func (p *poke) Upsert(obj *unstructured.Unstructured) { p.seen(obj) }

// Delete implements Sink.
func (p *poke) Delete(string, string, *unstructured.Unstructured) { p.seen(nil) }

// Health implements Sink.
func (*poke) Health(error) {}
