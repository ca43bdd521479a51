// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package tuning sets GOMAXPROCS, GOGC and GOMEMLIMIT for an agent, which shares its node with other pods and is idle most
// of the time: one processor and little garbage while idle, more of both under load. See docs/decisions/019. Call Start
// once, in main, before anything goes by the memory limit.
package tuning

import (
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"syscall"
	"time"
)

// Limits of garbage: half of the live heap; up to gcEven, as much as the live heap; and gcFloor in any case. Go allows
// some more for stacks and globals.
const (
	// gcPercent is for agents with many copies. Decoding and writing a copy makes garbage: with Go's default of 100 the
	// peak of memory would be a third higher.
	gcPercent = 50
	// gcFloor and gcEven are in bytes. Without them an agent with a small heap would collect garbage all the time.
	gcFloor = 6 << 20
	gcEven  = 12 << 20
)

const (
	// Load is CPU time per wall-clock time and processor. Above busyAbove the agent gets all processors that it may
	// use, below idleBelow only as many as it needs.
	busyAbove, idleBelow = 0.4, 0.15
	// checkEvery is the shortest time over which the load is averaged.
	checkEvery = time.Second
)

// memoryPercent is what Go may use of the memory limit that the environment sets, which is that of the container: what Go
// does not count, and what is allocated while the collector runs, comes on top. Beyond it, the kernel would kill the agent.
const memoryPercent = 90

// tuning is what was set, and what the decision was based on. percent and processors are zero when the environment sets
// them.
type tuning struct {
	percent    int
	processors int
	usable     int // processors that Go would take
	cpuTime    func() time.Duration
	checked    time.Time
	cpu        time.Duration // CPU time used until checked
}

// Start sets GOMAXPROCS to 1, GOGC by the size of the live heap, and the memory limit to nine tenths of GOMEMLIMIT. It
// adjusts GOGC after each garbage collection, and GOMAXPROCS after a collection that comes a second or more after the last
// adjustment. There is no timer. GOMAXPROCS and GOGC of the environment are left alone.
func Start() {
	limitMemory()
	t := begin()
	eachCollection(func() bool {
		t.adjust()
		return true
	})
}

func limitMemory() {
	if limit := debug.SetMemoryLimit(-1); limit != math.MaxInt64 { // there is one
		debug.SetMemoryLimit(limit / 100 * memoryPercent)
	}
}

func begin() *tuning {
	t := &tuning{usable: runtime.GOMAXPROCS(0), checked: time.Now(), cpuTime: cpuTime, cpu: cpuTime()}
	collect := os.Getenv("GOGC")
	if collect == "" {
		t.percent = 100
	}
	n, err := strconv.ParseInt(os.Getenv("GOMAXPROCS"), 10, 32) // as Go reads it
	if (err != nil || n <= 0) && collect != "off" {             // without collections, nothing would ever raise it from 1 again
		t.processors = 1
		runtime.GOMAXPROCS(t.processors)
	}
	t.adjust()
	return t
}

// eachCollection calls f after garbage collections until it returns false. A collection that begins before f has
// returned may be skipped.
func eachCollection(f func() bool) {
	// The object is garbage at once, so its finalizer runs after the next collection. A cleanup (runtime.AddCleanup) would
	// be simpler, but was in some runs never called while goroutines computed without a function call.
	runtime.SetFinalizer(new([64]byte), func(*[64]byte) {
		if f() {
			eachCollection(f)
		}
	})
}

// adjust sets GOGC and GOMAXPROCS for the present load.
func (t *tuning) adjust() {
	if t.percent > 0 {
		t.collector()
	}
	if since := time.Since(t.checked); t.processors > 0 && since >= checkEvery {
		t.scheduler(since)
	}
}

func (t *tuning) collector() {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	if percent := percentFor(live[0].Value.Uint64()); percent != t.percent {
		t.percent = percent
		debug.SetGCPercent(percent)
	}
}

func (t *tuning) scheduler(since time.Duration) {
	cpu := t.cpuTime()
	busy := (cpu - t.cpu).Seconds() / since.Seconds()
	t.checked, t.cpu = t.checked.Add(since), cpu
	if n := processorsFor(t.processors, t.usable, busy); n != t.processors {
		t.processors = n
		runtime.GOMAXPROCS(n)
	}
}

func percentFor(live uint64) int {
	garbage := max(gcFloor, min(live, gcEven))
	return int(max(gcPercent, garbage*100/max(live, gcFloor/2))) //nolint:gosec // At most 200.
}

// processorsFor is the new GOMAXPROCS: n is the present one, usable the maximum, and busy the CPU seconds used per
// second.
func processorsFor(n, usable int, busy float64) int {
	switch {
	case busy > busyAbove*float64(n):
		return usable
	case busy < idleBelow*float64(n):
		return max(1, int(math.Ceil(busy/busyAbove)))
	}
	return n
}

// cpuTime is the CPU time that this process has used, user and system.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0 // there is no error for the own process
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
