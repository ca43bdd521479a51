// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// poll is short beside what is waited for and long beside what one look costs.
const poll = 50 * time.Millisecond

// Wait calls cond until it returns nil, and returns how long that took. The error names what was waited
// for and the last reason against it. An agent that has ended ends the wait.
func Wait(ctx context.Context, what string, within time.Duration, cond func(context.Context) error) (time.Duration, error) {
	start, whole := time.Now(), ctx
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	tick := time.NewTicker(poll)
	defer tick.Stop()
	var last error
	for {
		err := cond(ctx)
		if err == nil {
			return time.Since(start), nil
		}
		if errors.Is(err, ErrAgentEnded) {
			return time.Since(start), fmt.Errorf("%s: %w", what, err) // nothing will come any more
		}
		if ctx.Err() == nil || last == nil {
			last = err // not the "deadline exceeded" of a look that was cut short
		}
		select {
		case <-ctx.Done():
			if whole.Err() != nil {
				return time.Since(start), fmt.Errorf("%s: %w", what, whole.Err())
			}
			return time.Since(start), fmt.Errorf("%s: not within %s: %w", what, within, last)
		case <-tick.C:
		}
	}
}

// Stays calls cond for the whole time and returns its first error: what must not happen did not happen.
func Stays(ctx context.Context, what string, whole time.Duration, cond func(context.Context) error) error {
	timer := time.NewTimer(whole)
	defer timer.Stop()
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for {
		if err := cond(ctx); err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-timer.C:
			return nil
		case <-tick.C:
		}
	}
}
