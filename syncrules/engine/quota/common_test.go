// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// ofBranches shares equally between good and all others together.
func ofBranches(total int, wants map[string]int) map[string]int {
	out, branches, others := map[string]int{}, 0, len(wants)
	if wants[string(good)] > 0 {
		branches, others = 1, others-1
	}
	if others > 0 {
		branches++
	}
	for id := range wants {
		out[id] = total / branches
		if id != string(good) {
			out[id] /= others
		}
	}
	return out
}

// crowd is a quota whose clusters are many, and what they have written.
type crowd struct {
	*Quota[string]
	common        *Common
	bytes, writes map[Account]float64
}

func newCrowd(now time.Time) *crowd {
	limits := NewLimits(1000, 10, 200, 2)
	common := NewCommon(limits, "own", ofBranches, now)
	limits.Common = common
	return &crowd{New[string](limits, now), common, map[Account]float64{}, map[Account]float64{}}
}

// floods has n clusters of one branch write whatever they may.
func (c *crowd) floods(n int, bytes int64, now time.Time) {
	for i := range n {
		of := Account(fmt.Sprint("invented-", i))
		for k := 0; c.write(of, fmt.Sprint(of, k%8), bytes, now); k++ {
			c.bytes[bad] += float64(bytes)
			c.writes[bad]++
		}
	}
	for _, _, ok := c.Next(now); ok; {
		_, _, ok = c.Next(now)
	}
}

// However many clusters a member invents, each with a full account: together they write no more than two, and what another
// cluster changes meanwhile is written at once.
func TestInventionsShareWrites(t *testing.T) {
	t.Parallel()
	for name, bytes := range map[string]int64{"many small ones": 1, "large ones": 90} {
		now := time.Unix(0, 0)
		c := newCrowd(now)
		c.floods(100, bytes, now)
		for i := range 600 {
			if now = now.Add(time.Second); i%5 == 0 && !c.write(good, "g", bytes/3, now) {
				t.Fatalf("%s: after %d s the honest cluster waits", name, i)
			}
			c.floods(100, bytes, now)
		}
		if mostBytes, mostWrites := 2000+600*20+90, 400+600*4+90; c.bytes[bad] > float64(mostBytes) || c.writes[bad] > float64(mostWrites) {
			t.Errorf("%s: %v bytes and %v writes, want at most %d and %d", name, c.bytes[bad], c.writes[bad], mostBytes, mostWrites)
		}
		if c.bytes[bad] < 2000 && c.writes[bad] < 400 {
			t.Errorf("%s: nobody was flooded", name)
		}
		if c.write("own", "o", bytes, now); !c.write("own", "o", bytes, now) {
			t.Errorf("%s: the own cluster waits for others", name)
		}
	}
}

// What one account wrote beyond its grants, with an object that is larger than those, it waits for.
func TestLargeObjectsArePaidFor(t *testing.T) {
	t.Parallel()
	now, written := time.Unix(0, 0), 0.0
	c := newCrowd(now)
	c.floods(10, 90, now)
	c.Spend("invented-0", "rest", 2000, now) // now it is used up for minutes
	for range 90 {
		now = now.Add(time.Second)
		if c.write(good, "g", 1500, now) {
			written += 1500
		}
	}
	if written > 2*1500 { // a grant is 20 bytes, and 15 of them are its
		t.Errorf("%v bytes were written in 90 s", written)
	}
}

// When nobody floods any more, accounts alone count.
func TestCrowdEnds(t *testing.T) {
	t.Parallel()
	now := time.Unix(0, 0)
	c := newCrowd(now)
	c.floods(100, 50, now)
	if c.common.Wait("invented-7", now) == 0 {
		t.Fatal("it is not used up")
	}
	if text := c.Text("Secret x", "invented-7", "seven", now); !strings.Contains(text, "all other clusters together") {
		t.Error(text)
	}
	now = now.Add(10 * time.Minute)
	for i := range 100 {
		if of := Account(fmt.Sprint("invented-", i)); c.common.Wait(of, now) > 0 {
			t.Errorf("%s waits", of)
		}
	}
	c.Refund("invented-1", 1e9, now)
	if left := c.common.bytes.left; left > 2000 {
		t.Errorf("%v bytes are left", left)
	}
}

// After a restart there is as much less as in each account.
func TestCommonAfterRestart(t *testing.T) {
	t.Parallel()
	now := time.Unix(0, 0)
	limits := NewLimits(1000, 10, 200, 2).AfterRestart(10 * time.Second)
	c := NewCommon(limits, "own", ofBranches, now)
	if c.bytes.left != 200 || c.writes.left != 40 {
		t.Errorf("%v bytes and %v writes", c.bytes.left, c.writes.left)
	}
}
