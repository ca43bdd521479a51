// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"maps"

	"github.com/roster-mesh/roster/syncrules/engine/place"
)

// table is a map from keys that takes memory for what it has. A map of Go has room for as many as it ever had, for good. The zero value is an empty one.
type table[V any] struct {
	of   map[place.Key]V
	most int // how many it has had since of was made
}

// few is how many may be kept room for.
const few = 1024

func (t *table[V]) len() int { return len(t.of) }

// get returns the zero value for a key that it does not have.
func (t *table[V]) get(k place.Key) (v V, has bool) {
	v, has = t.of[k]
	return v, has
}

func (t *table[V]) set(k place.Key, v V) {
	if t.of == nil {
		t.of = map[place.Key]V{}
	}
	t.of[k] = v
	t.most = max(t.most, len(t.of))
}

// delete copies what is left when it is a quarter of what there was: so each key that comes pays for less than half a copy of another.
func (t *table[V]) delete(k place.Key) {
	delete(t.of, k)
	if t.most <= few || len(t.of) > t.most/4 {
		return
	}
	old := t.of
	t.of, t.most = make(map[place.Key]V, len(old)), len(old)
	maps.Copy(t.of, old)
}
