// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// equals shares half of the total among the inventions of a bad member, and half among the others; what the others leave is lent.
func equals(total int, wants map[string]int) map[string]int {
	bad, good := 0, 0
	for id, n := range wants {
		if strings.HasPrefix(id, "bad") {
			bad++
		} else {
			good += n
		}
	}
	shares := map[string]int{}
	for id := range wants {
		if shares[id] = total / 2; strings.HasPrefix(id, "bad") {
			shares[id] = (total - min(good, total/2)) / bad
		}
	}
	return shares
}

// TestInventionsLeaveMemory: what a member has invented takes all the memory that there is for whoever comes first. An honest one
// that comes later has its share: the inventions give way. The shares are not computed for each object.
func TestInventionsLeaveMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most, object = 8 << 20, 1 << 10
		asked := 0
		m := New(most, func(total int, wants map[string]int) map[string]int {
			asked++
			return equals(total, wants)
		})
		gaveWay := map[string]int{}
		take := func(id string) (took int64) {
			for c := m.Of(id); ; took += object {
				for !c.Fits(object) {
					other := c.GivesWay(object)
					if other == "" {
						return took
					}
					gaveWay[other]++
					m.Of(other).add(-object)
				}
				c.add(object)
			}
		}
		bad := take("bad-0")
		if bad != most || asked != 1 {
			t.Fatalf("the first invention has %d bytes, and the shares were computed %d times", bad, asked)
		}
		for i := range 99 {
			take(fmt.Sprint("bad-", i+1))
		}
		if m.all.Load() > most || asked > 200 {
			t.Errorf("%d bytes are held, and the shares were computed %d times", m.all.Load(), asked)
		}
		asked = 0
		time.Sleep(fresh)
		if good := take("good"); good != most/2 || m.Of("good").Weight() != good || asked > slack {
			t.Errorf("the honest member has %d bytes; the shares were computed %d times", good, asked)
		}
		if take("bad-0"); gaveWay["good"] > 0 || m.all.Load() > most {
			t.Errorf("the honest member gave way %d times, and %d bytes are held", gaveWay["good"], m.all.Load())
		}
	})
}

// TestSmallClustersAreCheap: of thousands of clusters almost nothing is held. The shares are not computed for each of them that asks,
// also where they come one after the other, and whoever comes a second later has its share.
func TestSmallClustersAreCheap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const clusters = 4096
		asked := 0
		m := New(64<<20, func(total int, wants map[string]int) map[string]int {
			asked++
			return Equally(total, wants)
		})
		m.Of("big").Hold(1, 64<<20)
		for i := range clusters {
			c := m.Of(fmt.Sprint(i))
			c.Hold(1, 100)
			c.GivesWay(0)
		}
		if asked > divisions {
			t.Errorf("while they came, the shares were computed %d times", asked)
		}
		time.Sleep(fresh)
		asked = 0
		for i := range 2 * clusters {
			m.Of(fmt.Sprint(i % clusters)).GivesWay(0)
		}
		if asked > 1 {
			t.Errorf("while they asked, the shares were computed %d times", asked)
		}
		if id := m.Of("late").GivesWay(200); id != "big" {
			t.Errorf("for one that comes then, %q gives way", id)
		}
	})
}

// A cluster that is gone is forgotten, once nothing is held of it.
func TestForget(t *testing.T) {
	t.Parallel()
	m := New(1<<20, Equally)
	m.Of("a").Hold(1, 100)
	m.Of("b")
	m.Forget("a")
	m.Forget("b")
	if len(m.clusters) != 1 || m.Of("a").Weight() == 0 {
		t.Errorf("%d clusters are known", len(m.clusters))
	}
	m.Of("a").Hold(-1, -100)
	m.Forget("a")
	if len(m.clusters) != 0 || m.all.Load() != 0 {
		t.Errorf("%d clusters are known, of which %d bytes are held", len(m.clusters), m.all.Load())
	}
}

func TestWeight(t *testing.T) {
	t.Parallel()
	if Weight(2, 1000) <= 1000 || Weight(0, 0) != 0 || Weight(-1, -10) != -Weight(1, 10) {
		t.Error("objects weigh nothing beside their bytes")
	}
}
