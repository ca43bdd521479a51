// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"maps"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// The CRD of the copies is deleted and made again with another scope, so fast that no watch was without the kind.
func TestKindMadeAgainWithAnotherScope(t *testing.T) {
	inWorld(t, func(w *world) {
		w.setRule(toKind(testRule("r"), "ClusterThing"))
		w.peers[a].put(configMap("x", "1"))
		w.settle()
		w.wantValue(thing("ClusterThing", "", "x"), "1")
		w.local.remove(thing("ClusterThing", "", "x"))
		gvk := schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "ClusterThing"}
		w.e.mu.Lock()
		next := maps.Clone(w.e.scoping.known)
		next[gvk] = true
		w.e.refitLocked(next, gvk, true)
		w.e.mu.Unlock()
		w.settle()
		w.wantValue(thing("ClusterThing", "default", "x"), "1")
	})
}
