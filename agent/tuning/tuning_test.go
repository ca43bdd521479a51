// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package tuning

import (
	"math"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
	"testing"
	"time"
)

func TestPercentFor(t *testing.T) {
	for live, want := range map[uint64]int{
		0: 200, 1 << 20: 200, 3 << 20: 200, 6 << 20: 100, 12 << 20: 100, 16 << 20: 75, 24 << 20: 50, 1 << 40: 50, math.MaxUint64: 50,
	} {
		if got := percentFor(live); got != want {
			t.Errorf("%d bytes in use: %d, want %d", live, got, want)
		}
	}
}

func TestProcessorsFor(t *testing.T) {
	for _, c := range []struct {
		n, usable int
		busy      float64
		want      int
	}{
		{1, 4, 0.1, 1},
		{1, 4, 0.3, 1},
		{1, 4, 0.5, 4},
		{4, 4, 0.7, 4}, // a small saving is not worth a change
		{4, 4, 0.5, 2},
		{2, 4, 0.5, 2}, // stays after it was lowered
		{2, 4, 0.9, 4},
		{2, 2, 0.35, 2}, // does not go back and forth
		{4, 4, 4, 4},
		{64, 64, 0.1, 1},
		{1, 1, 1, 1},
	} {
		if got := processorsFor(c.n, c.usable, c.busy); got != c.want {
			t.Errorf("%d of %d, busy %v: %d, want %d", c.n, c.usable, c.busy, got, c.want)
		}
	}
}

// TestMemoryLimit: of the container's limit a tenth is left, and without one Go has none.
func TestMemoryLimit(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	defer debug.SetMemoryLimit(before)
	for limit, want := range map[int64]int64{100 << 20: 90 << 20, 1000: 900, math.MaxInt64: math.MaxInt64} {
		debug.SetMemoryLimit(limit)
		limitMemory()
		if got := debug.SetMemoryLimit(-1); got != want {
			t.Errorf("with %d bytes: %d, want %d", limit, got, want)
		}
	}
}

// adjustments counts the adjustments after collections.
type adjustments struct {
	atomic.Int32
	over atomic.Bool
}

// started starts tuning with two processors and that environment, and stops it with the test.
func started(t *testing.T, gogc, gomaxprocs string) *adjustments {
	t.Helper()
	t.Setenv("GOGC", gogc)
	t.Setenv("GOMAXPROCS", gomaxprocs)
	processors, percent := runtime.GOMAXPROCS(2), debug.SetGCPercent(77)
	tuned, l := begin(), &adjustments{}
	eachCollection(func() bool {
		if l.over.Load() {
			return false
		}
		tuned.adjust()
		l.Add(1)
		return true
	})
	t.Cleanup(func() {
		l.over.Store(true)
		runtime.GOMAXPROCS(processors)
		debug.SetGCPercent(percent)
	})
	return l
}

// collected returns after a collection that began after the call, and after its adjustment.
func (l *adjustments) collected(t *testing.T) {
	t.Helper()
	before := l.Load()
	for began := time.Now(); l.Load() < before+2; { // one may be of an earlier collection
		runtime.GC()
		time.Sleep(time.Millisecond) // the runtime calls when it gets to it, and never while collections fill all of its time
		if time.Since(began) > time.Minute {
			t.Fatal("no collection leads to an adjustment")
		}
	}
}

func percent() int {
	is := []metrics.Sample{{Name: "/gc/gogc:percent"}}
	metrics.Read(is)
	return int(is[0].Value.Uint64()) //nolint:gosec // At most 200.
}

// TestGOGCFollowsHeap: GOGC is adjusted to the live heap after each collection.
func TestGOGCFollowsHeap(t *testing.T) {
	tuned := started(t, "", "")
	tuned.collected(t)
	if got := percent(); got <= gcPercent {
		t.Errorf("%d with little in use", got)
	}
	held := make([]byte, 64<<20)
	tuned.collected(t)
	if got := percent(); got != gcPercent {
		t.Errorf("%d with %d bytes in use", got, len(held))
	}
	runtime.KeepAlive(held)
}

// TestAdjustsWhileBusy: goroutines that compute without a function call do not stop the adjustments.
func TestAdjustsWhileBusy(t *testing.T) {
	l := started(t, "", "")
	var end atomic.Bool
	defer end.Store(true)
	for range 2 {
		go func() {
			for !end.Load() { //nolint:revive // It is there to be busy.
			}
		}()
	}
	for range 5 {
		l.collected(t)
	}
}

// TestGOMAXPROCSFollowsLoad: the CPU time used since the last adjustment decides, once a second has passed.
func TestGOMAXPROCSFollowsLoad(t *testing.T) {
	processors := runtime.GOMAXPROCS(1)
	t.Cleanup(func() { runtime.GOMAXPROCS(processors) })
	var used time.Duration
	tuned := &tuning{processors: 1, usable: 2, cpuTime: func() time.Duration { return used }}
	for _, step := range []struct {
		used time.Duration
		want int
	}{{300 * time.Millisecond, 1}, {500 * time.Millisecond, 2}, {350 * time.Millisecond, 2}, {200 * time.Millisecond, 1}} {
		used += step.used
		tuned.scheduler(time.Second)
		if got := runtime.GOMAXPROCS(0); got != step.want {
			t.Errorf("%d processors after %s in a second, want %d", got, step.used, step.want)
		}
	}
}

// TestEnvironmentWins: what the environment sets is left alone.
func TestEnvironmentWins(t *testing.T) {
	for _, c := range []struct {
		gogc, gomaxprocs    string
		percent, processors bool // are ours to set
	}{
		{"77", "2", false, false},
		{"77", "", false, true},
		{"", "2", true, false},
		{"off", "", false, false},
		{"", "3000000000", true, true}, // which Go ignores
	} {
		t.Run(c.gogc+" "+c.gomaxprocs, func(t *testing.T) {
			tuned := started(t, c.gogc, c.gomaxprocs)
			tuned.collected(t)
			if got := percent() != 77; got != c.percent {
				t.Errorf("%d percent", percent())
			}
			if got := runtime.GOMAXPROCS(0) != 2; got != c.processors {
				t.Errorf("%d processors", runtime.GOMAXPROCS(0))
			}
		})
	}
}
