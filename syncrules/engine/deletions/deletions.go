// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package deletions remembers which sources were seen to be deleted, until their copies are. It is the proof that a deletion needs.
package deletions

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/roster-mesh/roster/syncrules/engine/place"
)

// Max is how many are remembered of a view. Where the kind of the copies is not served here, none is ever acted on. One that is
// forgotten counts for the guard like one that a list lacks.
const Max = 10_000

// Deletions are sources that were deleted, with the copies of each of them that are to follow. The zero value has none.
type Deletions struct {
	copies map[types.NamespacedName]map[place.Key]struct{}
	n      int
}

// Add says that a source was deleted, of which there may be such a copy.
func (d *Deletions) Add(from types.NamespacedName, to place.Key) {
	if d.n >= Max || d.Has(from, to) {
		return
	}
	if d.copies == nil {
		d.copies = map[types.NamespacedName]map[place.Key]struct{}{}
	}
	if d.copies[from] == nil {
		d.copies[from] = map[place.Key]struct{}{}
	}
	d.copies[from][to] = struct{}{}
	d.n++
}

// Has says that the source of a copy was deleted.
func (d *Deletions) Has(from types.NamespacedName, to place.Key) bool {
	_, ok := d.copies[from][to]
	return ok
}

// Len is how many there are.
func (d *Deletions) Len() int { return d.n }

// Drop says that a copy is gone.
func (d *Deletions) Drop(from types.NamespacedName, to place.Key) {
	if !d.Has(from, to) {
		return
	}
	delete(d.copies[from], to)
	if d.n--; len(d.copies[from]) == 0 {
		delete(d.copies, from)
	}
}

// DropAll says that the source is there again, wherever its copies belong now.
func (d *Deletions) DropAll(from types.NamespacedName) {
	d.n -= len(d.copies[from])
	delete(d.copies, from)
}
