// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"maps"
	"time"
)

// Share returns what each of those who want some of total gets.
type Share func(total int, wants map[string]int) map[string]int

// Common is what is written because of all clusters together: one member can invent thousands, each with an account of its own. While
// something of it is left, accounts alone count. When it is used up, what comes back is shared by who admitted whom: in each window of
// so many seconds there are as many grants, each of what comes back in one second. Who gets no whole grant waits until something is left
// again, so those that are invented do, whose member gets a part with all of them.
//
// The quotas of a process have one in common. It has no lock either.
type Common struct {
	limits Limits
	own    Account
	share  Share

	bytes, writes level
	began         time.Time           // of the window
	asked, before map[string]struct{} // who did in this window, and in the one before
	grants        map[string]int      // of those that had asked
	divided       time.Time           // when
	resting       time.Time           // until when they are not divided again
	used          map[string]float64  // of grants, in this window
}

const (
	// commonAccounts is how many full accounts all clusters have together.
	commonAccounts = 2
	window         = 30 * time.Second
	// calm is how long grants are not divided again, for each cluster among which they were: twenty times as long as it takes.
	calm = 20 * time.Microsecond
)

// NewCommon returns what nobody has used, for accounts with these limits. What is written because of own is not counted.
func NewCommon(each Limits, own Account, share Share, now time.Time) *Common {
	l := each.Part(1.0 / commonAccounts)
	return &Common{
		limits: l, own: own, share: share, bytes: level{l.Bytes.First, now}, writes: level{l.Writes.First, now}, began: now,
		asked: map[string]struct{}{}, used: map[string]float64{},
	}
}

// Wait is how long an account has to wait because of what others have used; 0 if it may write now.
func (c *Common) Wait(of Account, now time.Time) time.Duration {
	if of == c.own {
		return 0
	}
	c.pass(now)
	id := string(of)
	c.asked[id] = struct{}{}
	if !c.scarce() {
		return 0
	}
	if _, known := c.grants[id]; !known || c.divided.Before(c.began) {
		if wait := c.resting.Sub(now); wait > 0 {
			return wait
		}
		c.divide(now)
	}
	if c.used[id] < float64(c.grants[id]) {
		return 0
	}
	return c.began.Add(window).Sub(now)
}

// Spend takes what was written because of an account, and gives it back where that is negative.
func (c *Common) Spend(of Account, bytes, writes float64, now time.Time) {
	if of == c.own {
		return
	}
	c.pass(now)
	if c.scarce() {
		id := string(of)
		if c.used[id] += bytes/c.limits.Bytes.PerSecond + writes/c.limits.Writes.PerSecond; c.used[id] <= 0 {
			delete(c.used, id)
		}
	}
	c.bytes.left = min(c.bytes.left-bytes, c.limits.Bytes.Most)
	c.writes.left = min(c.writes.left-writes, c.limits.Writes.Most)
}

func (c *Common) scarce() bool { return c.bytes.left <= 0 || c.writes.left <= 0 }

// pass lets time pass. What an account wrote beyond its grants counts in the next window: an object may be larger than those.
func (c *Common) pass(now time.Time) {
	c.bytes.refill(c.limits.Bytes, now)
	c.writes.refill(c.limits.Writes, now)
	passed := now.Sub(c.began)
	if passed < window {
		return
	}
	for id, used := range c.used {
		if left := used - float64(c.grants[id]); left > 0 && c.grants[id] > 0 {
			c.used[id] = left
		} else {
			delete(c.used, id)
		}
	}
	if c.before = c.asked; passed >= 2*window {
		c.before = nil
	}
	c.asked, c.began = map[string]struct{}{}, now
}

// divide divides the grants of a window among those that ask.
func (c *Common) divide(now time.Time) {
	wants := map[string]int{}
	const grants = int(window / time.Second)
	for _, asked := range []map[string]struct{}{c.asked, c.before} {
		for id := range maps.Keys(asked) {
			wants[id] = grants
		}
	}
	c.grants, c.divided = c.share(grants, wants), now
	c.resting = now.Add(calm * time.Duration(len(wants)))
}
