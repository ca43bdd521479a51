// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"context"
	"time"

	"golang.org/x/time/rate"
)

const (
	// penFirst is how long there is writing without rests, which is what it takes to list some thousand clusters, and penPart which part
	// of the time from then on: of a processor of the API server about as much.
	penFirst = 20 * time.Second
	penPart  = 8
	// penMost is how much of a write counts at most: where it takes longer it may be that a webhook does, and not the API server.
	penMost = time.Second / penPart
)

// Pen is what loops share that write in turn: who has it writes. It is for writes of which a member can cause thousands. First they follow
// each other without a rest, for 20 seconds of writing in all, and then they take an eighth of the time, however slow the API server is;
// what is not used comes back. It is safe for concurrent use.
type Pen struct {
	held chan struct{} // has something while somebody writes or rests
	time *rate.Limiter // of microseconds
}

// NewPen returns a pen that nobody has.
func NewPen() *Pen {
	return &Pen{make(chan struct{}, 1), rate.NewLimiter(rate.Limit(time.Second/penPart/time.Microsecond), int(penFirst/time.Microsecond))}
}

// write calls do when nobody else has the pen, and rests.
func (p *Pen) write(ctx context.Context, do func() error) error {
	p.held <- struct{}{}
	defer func() { <-p.held }()
	began := time.Now()
	err := do()
	now := time.Now()
	if wait := p.time.ReserveN(now, int(min(now.Sub(began), penMost)/time.Microsecond)).DelayFrom(now); wait > 0 {
		Sleep(ctx, wait)
	}
	return err
}
