// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"sync"
	"time"
)

// debounceFor is how long a status is delayed that will most likely change again. A cluster that joins goes through
// five states in this time, in every other cluster, and only the last one is of interest.
const debounceFor = time.Second

// debouncer remembers, by name, since when the status of a Cluster object differs from what it should be.
type debouncer struct {
	mu    sync.Mutex
	since map[string]time.Time
}

// wait is how long the write of a status is still delayed, 0 for not at all.
func (d *debouncer) wait(name string, lasting bool, now time.Time) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	since, known := d.since[name]
	if left := debounceFor - now.Sub(since); !lasting && (!known || left > 0) {
		if known {
			return left
		}
		if d.since == nil {
			d.since = map[string]time.Time{}
		}
		d.since[name] = now
		return debounceFor
	}
	return 0
}

// forget forgets an object whose status is up to date.
func (d *debouncer) forget(name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.since, name)
}

// lasting reports whether a status shows something that does not go away by itself, and so is not delayed.
func (v *View) lasting() bool {
	return v.Problem != "" || v.Removed != "" || v.Left != "" || v.NotAdmitted != "" || v.RemovalsHeld || len(v.OrderedRemovals) > 0 || v.Claims > 1 || v.KeyMismatch
}
