// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"math/rand/v2"
	"time"
)

// The waits between attempts to reach a member.
const (
	minBackoff = 100 * time.Millisecond
	maxBackoff = 30 * time.Second
)

// backoff is a capped, jittered exponential wait. The zero value starts at
// minBackoff.
type backoff struct{ delay time.Duration }

// next is the wait before the next attempt: between half and the whole of a
// delay that doubles each time.
func (b *backoff) next(limit time.Duration) time.Duration {
	if b.delay == 0 {
		b.delay = minBackoff / 2
	}
	b.delay = min(2*b.delay, limit)
	return b.delay/2 + rand.N(b.delay/2)
}

func (b *backoff) reset() { b.delay = 0 }
