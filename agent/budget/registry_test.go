// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package budget_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/roster-mesh/roster/agent/budget"
	"github.com/roster-mesh/roster/syncrules/engine/quota"
)

// flood has budgets of the registry, and clusters that one member invented, each of which changes all the time.
type flood struct {
	loops []*budget.Budget[string]

	mu      sync.Mutex
	written map[string]int // of each member, with all that it admitted
	looks   int
}

func newFlood(t *testing.T, limits quota.Limits) *flood {
	t.Helper()
	parent := func(id string) string {
		if strings.HasPrefix(id, "invented-") {
			return "thief"
		}
		return "own"
	}
	limits.Common = budget.NewCommon(limits, "own", parent)
	limits = budget.OfRegistry(limits, "own", parent)
	f := &flood{loops: make([]*budget.Budget[string], 3), written: map[string]int{}}
	for i := range f.loops {
		f.loops[i] = budget.New(limits, func(k string, after time.Duration) {
			time.AfterFunc(after, func() { f.write(i, k) })
		})
	}
	return f
}

// write has the object of a cluster written by one of the loops, which changes again at once if it is an invention.
func (f *flood) write(loop int, id string) (now bool) {
	now = f.loops[loop].Write(id, id, bytes(1<<10), succeeds) == nil
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.looks++; now {
		who, _, invented := strings.Cut(id, "-")
		f.written[who]++
		if invented {
			time.AfterFunc(time.Millisecond, func() { f.write(loop, id) })
		}
	}
	return now
}

func (f *flood) counted() (inventions, looks int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.written["invented"], f.looks
}

// Of thousands of clusters that one member invents, and which change all the time, so much is written at once, and then a few writes a
// second, of all loops together; of members that are not flooded all is written at once meanwhile, each time, also if there are many.
func TestRegistryIsWrittenSlowly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFlood(t, quota.DefaultLimits())
		const invented = 1024
		for i := range invented {
			for loop := range f.loops {
				f.write(loop, fmt.Sprint("invented-", i))
			}
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if n, _ := f.counted(); n < budget.RegistryWrites || n > budget.RegistryWrites+90*budget.RegistryWritesPerSecond {
			t.Errorf("in a minute %d are written", n)
		}
		const honest = 30
		for range 4 {
			before, looks := f.counted()
			for i := range honest {
				for loop := range f.loops {
					if !f.write(loop, fmt.Sprintf("honest%02d", i)) {
						t.Errorf("after %d of inventions, honest member %d waits in loop %d", before, i, loop)
					}
				}
			}
			time.Sleep(time.Minute)
			synctest.Wait()
			now, all := f.counted()
			if n, most := now-before, 75*budget.RegistryWritesPerSecond; n > most || n < most/4 {
				t.Errorf("in a minute %d of inventions are written, want at most %d", n, most)
			}
			if n, most := all-looks, 60*3*invented/4; n > most {
				t.Errorf("in a minute the loops look %d times at what waits, want at most %d", n, most)
			}
		}
	})
}

// A cluster that starts in a group of a thousand has all of them listed at once, and again with what it got of each.
func TestRegistryIsFilledAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFlood(t, quota.DefaultLimits())
		for range 2 {
			for i := range 1000 {
				if !f.write(0, fmt.Sprint("member", i)) {
					t.Fatalf("member %d waits", i)
				}
			}
		}
	})
}

// A process that follows another one at once has a half, and not all again.
func TestRegistryAfterARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFlood(t, quota.DefaultLimits().AfterRestart(time.Second))
		for i := range 4096 {
			f.write(0, fmt.Sprint("invented-", i))
		}
		if n, _ := f.counted(); n < budget.RegistryWrites/2 || n > budget.RegistryWrites/2+64 {
			t.Errorf("%d are written at once after a restart", n)
		}
	})
}
