// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package pace

import (
	"math/rand/v2"
	"time"
)

// The waits between attempts to reach a member.
const (
	MinBackoff = 100 * time.Millisecond
	MaxBackoff = 30 * time.Second
)

// Backoff is a capped, jittered exponential wait. The zero value starts at MinBackoff.
type Backoff struct{ delay time.Duration }

// Next is the wait before the next attempt: between half and the whole of a delay that doubles each time.
func (b *Backoff) Next(limit time.Duration) time.Duration {
	if b.delay == 0 {
		b.delay = MinBackoff / 2
	}
	b.delay = min(2*b.delay, limit)
	return b.delay/2 + rand.N(b.delay/2)
}

// Delay is the delay of the last wait; 0 before the first one.
func (b *Backoff) Delay() time.Duration { return b.delay }

// Reset makes the next wait a first one.
func (b *Backoff) Reset() { b.delay = 0 }
