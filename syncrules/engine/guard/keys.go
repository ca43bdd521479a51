// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package guard

import "github.com/roster-mesh/roster/syncrules/engine/place"

// ownedKeys are those of copies, by their owner; none of them is empty.
type ownedKeys map[string]map[place.Key]struct{}

func (o ownedKeys) with(owner string, k place.Key) ownedKeys {
	if o == nil {
		o = ownedKeys{}
	}
	if o[owner] == nil {
		o[owner] = map[place.Key]struct{}{}
	}
	o[owner][k] = struct{}{}
	return o
}

func (o ownedKeys) without(owner string, k place.Key) {
	delete(o[owner], k)
	if len(o[owner]) == 0 {
		delete(o, owner)
	}
}
