// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package loop

import "time"

// Patience is how long to wait after a refusal: a little at first, since an API server that has just started refuses what it
// allows a moment later, and twice as long each time, up to Longest. It is not safe for concurrent use.
type Patience struct {
	First, Longest time.Duration

	last time.Duration
}

// Next is the next wait.
func (p *Patience) Next() time.Duration {
	p.last = min(max(p.First, 2*p.last), p.Longest)
	return p.last
}

// Worked begins again with the first wait.
func (p *Patience) Worked() { p.last = 0 }
