// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package limits has the bounds of what a replica keeps of others.
package limits

// Limits bound what every member keeps of others, and with that what an origin may publish. In
// memory an entry takes about 300 bytes more than its message.
type Limits struct {
	Entries    int // of one origin in one epoch, default 20,000
	Bytes      int // of the messages of one origin in all epochs, default 8 MiB; our own epoch may have half of it
	TotalBytes int // of the messages of all origins but ourselves, default 64 MiB; see [Limits.Guaranteed]
}

// OrDefault fills in what is not set.
func (l Limits) OrDefault() Limits {
	if l.Entries <= 0 {
		l.Entries = 20_000
	}
	if l.Bytes <= 0 {
		l.Bytes = 8 << 20
	}
	if l.TotalBytes <= 0 {
		l.TotalBytes = 64 << 20
	}
	return l
}

// Origins is how many origins have room for themselves: as many as a mesh introduces.
const Origins = 4096

// Guaranteed is how many bytes each origin has for itself, of one half of the total. The other half is
// shared by those that need more: so clusters that are invented to fill a member's memory take nothing from
// those that come later.
func (l Limits) Guaranteed() int { return l.TotalBytes / 2 / Origins }

// FromShared is how much an origin that uses so many bytes takes of what is shared.
func (l Limits) FromShared(used int) int { return max(0, used-l.Guaranteed()) }
