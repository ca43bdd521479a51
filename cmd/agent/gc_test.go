// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"math"
	"runtime"
	"runtime/metrics"
	"testing"
	"time"
)

func TestGCPercent(t *testing.T) {
	for live, want := range map[uint64]int{0: 200, 1 << 20: 200, 3 << 20: 200, 6 << 20: 100, 12 << 20: 50, 1 << 40: 50, math.MaxUint64: 50} {
		if got := gcPercentFor(live); got != want {
			t.Errorf("%d bytes in use: %d, want %d", live, got, want)
		}
	}
}

// What is in use decides again after each collection.
func TestGCIsPaced(t *testing.T) {
	percent := func() int {
		is := []metrics.Sample{{Name: "/gc/gogc:percent"}}
		metrics.Read(is)
		return int(is[0].Value.Uint64()) //nolint:gosec // At most 200.
	}
	runtime.GC() // what other tests held
	paceGC(0)
	small := percent()
	held := make([]byte, 64<<20)
	for began := time.Now(); percent() != gcPercent; runtime.GC() {
		if time.Since(began) > time.Minute {
			t.Fatalf("%d with %d bytes in use, was %d", percent(), len(held), small)
		}
	}
	if small <= gcPercent {
		t.Errorf("%d with little in use", small)
	}
	runtime.KeepAlive(held)
}
