// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package pace

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// TestInventionsShareARelay: thousands of origins that one member invented, of which each is modest, have no more passed on than is said of
// all, and one that another member admitted has its messages passed on beside them. What we send ourselves waits for none.
func TestInventionsShareARelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const seconds, invented = 60, 400
		limits := RelayLimits{Each: 20, EachAtOnce: 64, All: 100, AllAtOnce: 1000}
		r := NewRelay(limits, halves)
		passed, honest, own := 0, 0, 0
		for range seconds {
			for n := range invented {
				if r.Allow(fmt.Sprint("invented-", n), 1, false) {
					passed++
				}
			}
			for range 5 {
				if r.Allow("honest", 1, false) {
					honest++
				}
				if r.Allow("self", 1, true) {
					own++
				}
			}
			time.Sleep(time.Second)
		}
		// A second has as many when those at once are used up, and as many again of which each has a share.
		if most := limits.AllAtOnce + (2*limits.All+limits.All/reserve)*seconds; passed < limits.AllAtOnce || passed > most {
			t.Errorf("%d messages of inventions are passed on, want at most %d", passed, most)
		}
		if honest != 5*seconds || own != 5*seconds {
			t.Errorf("%d of an honest one and %d of our own are passed on, of %d", honest, own, 5*seconds)
		}
		noisy := 0
		for range 1000 {
			if r.Allow("noisy", 1, true) {
				noisy++
			}
		}
		if noisy != limits.EachAtOnce {
			t.Errorf("%d messages of one origin are passed on at once", noisy)
		}
		if r.Forget("noisy"); !r.Allow("noisy", 1, true) {
			t.Error("what was forgotten counts")
		}
	})
}
