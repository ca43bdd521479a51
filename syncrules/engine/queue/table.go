// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"maps"

	"github.com/roster-mesh/roster/syncrules/engine/place"
)

// table is a map from keys that takes memory for what it has: a map of Go never gives back what it has grown to. The zero value is an empty one.
type table[V any] struct {
	entries map[place.Key]V
	peak    int // how many there were since entries was made
}

// few is how many may be kept room for.
const few = 1024

func (t *table[V]) len() int { return len(t.entries) }

// get returns the zero value for a key that it does not have.
func (t *table[V]) get(k place.Key) (v V, has bool) {
	v, has = t.entries[k]
	return v, has
}

func (t *table[V]) set(k place.Key, v V) {
	if t.entries == nil {
		t.entries = map[place.Key]V{}
	}
	t.entries[k] = v
	t.peak = max(t.peak, len(t.entries))
}

// delete makes the map anew when a quarter of what there was is left: so there are three deletions for each key that is copied.
func (t *table[V]) delete(k place.Key) {
	delete(t.entries, k)
	if t.peak <= few || len(t.entries) > t.peak/4 {
		return
	}
	old := t.entries
	t.entries, t.peak = make(map[place.Key]V, len(old)), len(old)
	maps.Copy(t.entries, old)
}
