// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package waiting is how the parts of the API server wait, and after how long they say so. It knows none of them.
package waiting

import (
	"context"
	"time"
)

// Slow is after how long a start or a command says what it waits for, or how far it is.
const Slow = 2 * time.Second

// Sleep returns when d has passed, or ctx has ended.
func Sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
