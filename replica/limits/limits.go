// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package limits has the bounds of what a replica keeps of others.
package limits

import "cmp"

// Origins is how many origins a mesh introduces at most.
const Origins = 4096

// Limits bound what every member keeps of others, and with that what an origin may publish. In
// memory an entry takes about 300 bytes more than its message.
type Limits struct {
	Entries    int // of one origin in one epoch, default 20,000
	Bytes      int // of the messages of one origin in all epochs, default 8 MiB; our own epoch may have half of it
	TotalBytes int // of the messages of all origins but ourselves, default 64 MiB, shared by who admitted whom (package shares)
}

// OrDefault fills in what is not set.
func (l Limits) OrDefault() Limits {
	return Limits{cmp.Or(max(l.Entries, 0), 20_000), cmp.Or(max(l.Bytes, 0), 8<<20), cmp.Or(max(l.TotalBytes, 0), 64<<20)}
}
