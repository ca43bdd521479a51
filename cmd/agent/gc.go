// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

const (
	// gcPercent is how much garbage may be made, over what is in use, before it is collected; GOGC, where it is set,
	// wins. What is in use are the copies, and what is garbage is what decoding and writing one takes:
	// less than Go's default of 100 lowers the peak by more than the CPU that it costs.
	gcPercent = 50
	// gcFloor is how many bytes of garbage may be made however little is in use: an agent with few copies would collect
	// it all the time.
	gcFloor = 6 << 20
)

// paceGC sets the percentage for what is in use now, and again after every collection. before is the one that is set.
func paceGC(before int) {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	percent := gcPercentFor(live[0].Value.Uint64())
	if percent != before {
		debug.SetGCPercent(percent)
	}
	runtime.AddCleanup(new([64]byte), paceGC, percent) // which the next collection finds unused
}

func gcPercentFor(live uint64) int {
	return int(max(gcPercent, gcFloor*100/max(live, gcFloor/2))) //nolint:gosec // At most 200.
}
