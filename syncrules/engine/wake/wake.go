// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package wake is how the goroutines of the engine wait, and how they are woken.
package wake

import (
	"context"
	"time"
)

// Up wakes who waits for c, which has room for one, now or as soon as it waits.
func Up(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// After waits for so long, or until ctx ends or early, which may be nil, has something.
func After(ctx context.Context, d time.Duration, early <-chan struct{}) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-early:
	case <-timer.C:
	}
}
