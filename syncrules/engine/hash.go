// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"encoding/json"
	"hash/maphash"
	"maps"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/roster-mesh/roster/syncrules"
	"github.com/roster-mesh/roster/syncrules/packed"
)

// hasher hashes objects. The hashes are of this process alone, so that nobody can look for two objects that have the same.
type hasher struct{ seed maphash.Seed }

func newHasher() hasher { return hasher{maphash.MakeSeed()} }

// packed hashes an object as it is kept.
func (h hasher) packed(o packed.Object) uint64 { return maphash.String(h.seed, string(o)) }

// sumOf hashes what a copy would take over of an object.
func (h hasher) sumOf(obj *unstructured.Unstructured) uint64 {
	content := maps.Clone(obj.Object)
	if metadata, ok := content["metadata"].(map[string]any); ok {
		content["metadata"] = maps.Clone(metadata)
	}
	syncrules.Trim(&unstructured.Unstructured{Object: content})
	data, err := json.Marshal(content)
	if err != nil {
		return 0 // no API server sent it
	}
	return maphash.Bytes(h.seed, data)
}

// contentOf hashes what a claim brings: what the source has, and the rules, in their present form, that make a
// copy of it.
func (e *Engine) contentOf(sum uint64, rules []*rule, p *peer) uint64 {
	for _, r := range rules {
		sum = maphash.Comparable(e.hash.seed, [2]uint64{sum, r.serial})
		if r.reads { // the clusters, one of which is no other peer's
			sum = maphash.Comparable(e.hash.seed, [3]uint64{sum, p.seen.serial, e.clusters.snapshot.serial})
		}
	}
	return sum
}
