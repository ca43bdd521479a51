// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package tuning has Go's runtime behave as befits a guest: an agent shares its node, and waits most of the time.
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

// Of garbage, there may be half of what is in use; as much as that up to gcEven; and gcFloor in any case. For stacks and
// globals, Go allows some more.
const (
	// gcPercent is for agents with many copies. Garbage is what decoding and writing one takes: with Go's default of 100,
	// the peak would be a third higher.
	gcPercent = 50
	// gcFloor and gcEven are in bytes. With little in use, it would be collected all the time.
	gcFloor = 6 << 20
	gcEven  = 12 << 20
)

const (
	// An agent that is busy for more than mostly of its processors takes all that it may, and for less than hardly, what
	// it needs.
	mostly, hardly = 0.75, 0.25
	// lookEvery is the shortest time that is averaged over.
	lookEvery = time.Second
)

// tuning is what was set, and what it was decided by. What the environment sets is zero here.
type tuning struct {
	percent    int
	processors int
	usable     int // processors that Go would take
	cpuTime    func() time.Duration
	looked     time.Time
	cpu        time.Duration // used until looked
}

// Start sets GOMAXPROCS to one, and GOGC by what is in use. It looks at GOGC again after each collection, and at
// GOMAXPROCS after one that comes a second or more after the last look; there is no timer. What the environment sets is
// left alone: docs/decisions/019.
func Start() {
	t := begin()
	eachCollection(func() bool {
		t.look()
		return true
	})
}

func begin() *tuning {
	t := &tuning{usable: runtime.GOMAXPROCS(0), looked: time.Now(), cpuTime: cpuTime, cpu: cpuTime()}
	collect := os.Getenv("GOGC")
	if collect == "" {
		t.percent = 100
	}
	n, err := strconv.ParseInt(os.Getenv("GOMAXPROCS"), 10, 32) // as Go reads it
	if (err != nil || n <= 0) && collect != "off" {             // without collections, one processor would be for good
		t.processors = 1
		runtime.GOMAXPROCS(t.processors)
	}
	t.look()
	return t
}

// eachCollection calls f after collections of garbage, until it returns false. A collection that begins before f has
// returned may be left out.
func eachCollection(f func() bool) {
	// The object is garbage at once. It has a finalizer: while goroutines computed and called nothing, objects with cleanups
	// (runtime.AddCleanup) were in some runs never found unused.
	runtime.SetFinalizer(new([64]byte), func(*[64]byte) {
		if f() {
			eachCollection(f)
		}
	})
}

// look decides.
func (t *tuning) look() {
	if t.percent > 0 {
		t.collector()
	}
	if since := time.Since(t.looked); t.processors > 0 && since >= lookEvery {
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
	t.looked, t.cpu = t.looked.Add(since), cpu
	if n := processorsFor(t.processors, t.usable, busy); n != t.processors {
		t.processors = n
		runtime.GOMAXPROCS(n)
	}
}

func percentFor(live uint64) int {
	garbage := max(gcFloor, min(live, gcEven))
	return int(max(gcPercent, garbage*100/max(live, gcFloor/2))) //nolint:gosec // At most 200.
}

// processorsFor is how many come after n, of so many usable, which were busy for so many seconds a second.
func processorsFor(n, usable int, busy float64) int {
	switch {
	case busy > mostly*float64(n):
		return usable
	case busy < hardly*float64(n):
		return max(1, int(math.Ceil(busy/mostly)))
	}
	return n
}

// cpuTime is what this process has used, of user's and of the kernel's.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0 // it has no error for one's own
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
