// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"sync"
	"time"
)

// debounceMost is for how long a state of a cluster that most likely will not last is not written, nor what changes of
// one that is synced and stays so. A cluster that joins goes through five states in this time, in every other cluster,
// and people want to know the last.
const debounceMost = time.Second

// debouncer remembers since when the status of Cluster objects is another than the one written, by name.
type debouncer struct {
	mu    sync.Mutex
	since map[string]time.Time
}

// wait is for how long the status that an object should have is not to be written yet, 0 for not at all.
func (d *debouncer) wait(name string, lasting bool, now time.Time) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	since, known := d.since[name]
	if left := debounceMost - now.Sub(since); !lasting && (!known || left > 0) {
		if known {
			return left
		}
		if d.since == nil {
			d.since = map[string]time.Time{}
		}
		d.since[name] = now
		return debounceMost
	}
	return 0
}

// over forgets an object whose status is what it should be, or was just written.
func (d *debouncer) over(name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.since, name)
}

// lasting says that a status tells of something that does not go away by itself.
func (v *View) lasting() bool {
	return v.Problem != "" || v.Removed != "" || v.Left != "" || len(v.Orders) > 0 || v.Claims > 1 || v.Foreign
}
