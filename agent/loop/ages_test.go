// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"testing"
	"testing/synctest"
	"time"
)

// What waits grows old until it is written; a try after which it waits still makes it no younger.
func TestAges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ages Ages[string]
		oldest := func(want time.Duration) {
			t.Helper()
			if got := ages.Oldest(time.Now()); got != want {
				t.Errorf("the oldest has waited for %s, want %s", got, want)
			}
		}
		oldest(0)
		ages.Add("a")
		time.Sleep(time.Minute)
		ages.Add("a")
		oldest(time.Minute)
		ages.Begin("a")(true)
		oldest(time.Minute)
		end := ages.Begin("a")
		ages.Add("a") // while it is reconciled
		time.Sleep(time.Second)
		end(false)
		oldest(time.Second)
		ages.Begin("a")(false)
		oldest(0)
		ages.Begin("b")(true) // which nobody added: it is looked at by itself
		oldest(0)
	})
}
