// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package wake

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func TestWake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		began, early := time.Now(), make(chan struct{}, 1)
		waits := func(want time.Duration) {
			t.Helper()
			if After(ctx, time.Minute, early); time.Since(began) != want {
				t.Errorf("after %s, want %s", time.Since(began), want)
			}
		}
		waits(time.Minute)
		Up(early)
		Up(early)
		waits(time.Minute)
		waits(2 * time.Minute)
		cancel()
		waits(2 * time.Minute)
	})
}
