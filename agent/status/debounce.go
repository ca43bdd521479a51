// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"slices"
	"sync"
	"time"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// debounceFor is how long a status is delayed that will most likely change again. A cluster that joins goes through
// five states in this time, in every other cluster, and only the last one is of interest. One that is not delayed is written again no
// sooner.
const debounceFor = time.Second

// debouncer remembers, by clusterID and name, since when the status of a Cluster object differs from what it should be, and when it was
// written.
type debouncer struct {
	mu   sync.Mutex
	seen map[string]map[string]moments
}

type moments struct {
	since, wrote time.Time
	admitted     time.Time     // when it was written last only because others admit the cluster,
	pause        time.Duration // and how long after that it is not again
}

// A member can sign an admission of each cluster and take it back again and again. So a status that differs in that alone is written the
// less often, the more often it was: after firstPause, and twice as long each time, up to longestPause.
const firstPause, longestPause = time.Second, 10 * time.Minute

// admission is how long the write of a status is still delayed that differs only in who admits the cluster.
func (d *debouncer) admission(id, name string, now time.Time) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	m := d.seen[id][name]
	return max(0, m.pause-now.Sub(m.admitted))
}

// admissionWritten remembers that a status was written for that alone.
func (d *debouncer) admissionWritten(id, name string, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	m := d.seen[id][name]
	if now.Sub(m.admitted) > longestPause {
		m.pause = 0
	}
	m.admitted, m.pause = now, min(max(2*m.pause, firstPause), longestPause)
	d.setLocked(id, name, m)
}

// wait is how long the write of a status is still delayed, 0 for not at all.
func (d *debouncer) wait(id, name string, lasting bool, now time.Time) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	m := d.seen[id][name]
	if lasting {
		return max(0, debounceFor-now.Sub(m.wrote))
	}
	if m.since.IsZero() {
		m.since = now
		d.setLocked(id, name, m)
	}
	return max(0, debounceFor-now.Sub(m.since))
}

// forget forgets that the status of an object was not up to date.
func (d *debouncer) forget(id, name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if m, ok := d.seen[id][name]; ok {
		m.since = time.Time{}
		d.setLocked(id, name, m)
	}
}

// written remembers that the status of an object was brought up to date.
func (d *debouncer) written(id, name string, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	m := d.seen[id][name]
	m.since, m.wrote = time.Time{}, now
	d.setLocked(id, name, m)
}

func (d *debouncer) setLocked(id, name string, m moments) {
	if d.seen == nil {
		d.seen = map[string]map[string]moments{}
	}
	if d.seen[id] == nil {
		d.seen[id] = map[string]moments{}
	}
	d.seen[id][name] = m
}

// keep forgets all objects of a cluster but these.
func (d *debouncer) keep(id string, objects []*v1alpha1.Cluster) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for name := range d.seen[id] {
		if !slices.ContainsFunc(objects, func(c *v1alpha1.Cluster) bool { return c.Name == name }) {
			delete(d.seen[id], name)
		}
	}
	if len(d.seen[id]) == 0 {
		delete(d.seen, id)
	}
}

// lasting reports whether a status shows something that does not go away by itself, and so is not delayed.
func (v *View) lasting() bool {
	return v.Problem != "" || v.Removed != "" || v.Left != "" || v.NotAdmitted != "" || v.RemovalsHeld || len(v.OrderedRemovals) > 0 || v.Claims > 1 || v.KeyMismatch
}
