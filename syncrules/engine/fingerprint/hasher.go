// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package fingerprint

import (
	"encoding/json"
	"hash/maphash"
	"maps"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/roster-mesh/roster/syncrules"
	"github.com/roster-mesh/roster/syncrules/packed"
)

// Hasher hashes objects. The hashes are of this process alone, so that nobody can look for two objects that have the same.
type Hasher struct{ seed maphash.Seed }

// New returns a Hasher whose hashes no other one has.
func New() Hasher { return Hasher{maphash.MakeSeed()} }

// Packed hashes an object as it is kept.
func (h Hasher) Packed(o packed.Object) uint64 { return maphash.String(h.seed, string(o)) }

// Of hashes what a copy would take over of an object; 0 for what no API server sent.
func (h Hasher) Of(obj *unstructured.Unstructured) uint64 {
	content := maps.Clone(obj.Object)
	if metadata, ok := content["metadata"].(map[string]any); ok {
		content["metadata"] = maps.Clone(metadata)
	}
	syncrules.Trim(&unstructured.Unstructured{Object: content})
	data, err := json.Marshal(content)
	if err != nil {
		return 0
	}
	return maphash.Bytes(h.seed, data)
}

// Foreign hashes an object that is in the way of a copy, with all that decides on whether it may be adopted.
func (h Hasher) Foreign(obj *unstructured.Unstructured) uint64 {
	sum := h.Of(obj)
	data, err := json.Marshal([]any{obj.GetLabels(), obj.GetAnnotations(), obj.GetOwnerReferences(), obj.GetDeletionTimestamp()})
	if sum == 0 || err != nil {
		return 0
	}
	return h.With(sum, maphash.Bytes(h.seed, data))
}

// With adds to a hash what else a copy is made of.
func (h Hasher) With(sum uint64, more ...uint64) uint64 {
	for _, x := range more {
		sum = maphash.Comparable(h.seed, [2]uint64{sum, x})
	}
	return sum
}
