// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package verdict

import (
	"slices"
	"time"

	"github.com/roster-mesh/roster/syncrules"
)

// maxContents is how many contents are remembered beyond twice those that are offered.
const maxContents = 16

// Offer is what one cluster would have in the place. Adopts says that it may take over what is there.
type Offer struct {
	Origin  string
	Content uint64
	Adopts  bool
}

// Memory is of one place.
type Memory struct {
	// Sum is of the object as it was read; 0 when it is known to be different now. Absent says that there was none.
	Sum    uint64
	Absent bool
	// Read is when.
	Read  time.Time
	same  map[uint64]bool // of contents: whether the object has what they bring
	first Offer           // that the object was not adopted for, and why; zero if none would
	why   string
}

// Missed remembers that nothing is there.
func (m *Memory) Missed(now time.Time) { *m = Memory{Absent: true, Read: now} }

// Changed forgets what was there.
func (m *Memory) Changed() { m.Sum, m.Absent = 0, false }

// Take remembers what was decided about the object that was read.
func (m *Memory) Take(sum uint64, now time.Time, d syncrules.Decision, offers []Offer) {
	if m.Sum != sum || len(m.same) > 2*len(offers)+maxContents {
		m.same = map[uint64]bool{}
	}
	m.Sum, m.Absent, m.Read, m.first, m.why = sum, false, now, Offer{}, ""
	rivals := make(map[string]bool, len(d.Rivals))
	for _, id := range d.Rivals {
		rivals[id] = true
	}
	for _, o := range offers {
		m.same[o.Content] = !rivals[o.Origin]
	}
	if len(offers) > 0 && (d.Action == syncrules.Conflict || d.Action == syncrules.None) {
		m.first, m.why = offers[0], d.Reason
	}
}

// Decide is what follows for an object that is as it was read, if all that is offered was compared with it before, and the
// first cluster that offers something would not adopt it. Nothing else about the offers decides on that.
func (m *Memory) Decide(offers []Offer) (d syncrules.Decision, known bool) {
	if m.Sum == 0 || len(offers) == 0 || offers[0].Adopts && offers[0] != m.first {
		return d, false
	}
	var rivals []string
	for _, o := range offers {
		same, known := m.same[o.Content]
		if !known {
			return d, false
		}
		if !same && !slices.Contains(rivals, o.Origin) {
			rivals = append(rivals, o.Origin)
		}
	}
	d = syncrules.PlanForeign(rivals)
	if offers[0].Adopts && d.Action == syncrules.Conflict && m.why != "" {
		d.Reason = m.why
	}
	return d, true
}
