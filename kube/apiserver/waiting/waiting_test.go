// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package waiting

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// What comes first ends it.
func TestSleep(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		began := time.Now()
		Sleep(ctx, time.Minute)
		if took := time.Since(began); took != time.Minute {
			t.Errorf("a minute took %s", took)
		}
		Sleep(ctx, 2*time.Hour)
		if took := time.Since(began); took != time.Hour {
			t.Errorf("it went on for %s after a context that lasts an hour", took)
		}
	})
}
