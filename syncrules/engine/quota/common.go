// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"cmp"
	"time"

	"github.com/roster-mesh/roster/syncrules/engine/turns"
)

// Common is what is written because of all other clusters together: one member can invent thousands, each with an account of its own.
// While something of it is left, whoever comes writes. When it is used up, those that wait have turns, by the tree of who admitted whom:
// at each level first the cluster because of which, with all that it admitted, least was written lately. So thousands that are invented
// have together one turn of two beside another cluster, and that one does not wait at all until it has had as much as they.
//
// The quotas of a process have one in common. It has no lock and no clock either.
type Common struct {
	limits Limits
	own    Account
	parent func(id string) string

	bytes, writes level
	used          map[string]float64    // lately, because of a cluster and all that it admitted: in seconds in which so much comes back
	halved        time.Time             // when used was halved last: after some minutes it is forgotten
	waiting       map[Account]time.Time // until when an account counts, if it does not look again
	first, second turn                  // of those that wait
	looked        time.Time
	paths         map[Account]turns.Path // of manyPaths accounts at most that were asked about a moment ago; Paths are those of the queue
	until         time.Time              // when paths are looked for anew: somebody may have admitted somebody
}

const (
	// commonAccounts is how many full accounts all clusters have together.
	commonAccounts = 2
	// How much must be left depends on how much more was written because of a cluster than because of the first that waits: as much comes
	// back in weight times as long as that took, but no more than in kept. The less was written, the more is written in advance, up to
	// what comes back in overdrawn.
	weight, kept, overdrawn = 2, 5 * time.Second, 30 * time.Second
	// lately is how long it takes until half of what was written is forgotten.
	lately = time.Minute
	// Those that wait and are not first look again after these times: few soon, and of many each seldom.
	soonest, latest, ofMany = time.Second / 2, 30 * time.Second, 5 * time.Millisecond
	// fresh is how long it is taken for known who is first: to look takes a millisecond where thousands wait.
	fresh = time.Second / 4
	// pathsFresh is how long paths are kept, here and in Paths: who admitted whom is looked at as often.
	pathsFresh = time.Second
	// deepest is how many levels of the tree are looked at. Those below, in chains that somebody invents, have one turn together.
	deepest = 32
	// forgotten is less than what one write counts.
	forgotten = 1.0 / 1024
	// alone ends the name of what was written because of a cluster itself.
	alone = "/"
)

// NewCommon returns what nobody has used, for accounts with these limits. parent is who admitted a cluster: own, another one, or ""
// where nobody knows. What is written because of own is not counted.
func NewCommon(each Limits, own Account, parent func(id string) string, now time.Time) *Common {
	l := each.Part(1.0 / commonAccounts)
	return &Common{
		limits: l, own: own, parent: parent, bytes: level{l.Bytes.First, now}, writes: level{l.Writes.First, now},
		used: map[string]float64{}, halved: now, waiting: map[Account]time.Time{}, paths: map[Account]turns.Path{}, until: now,
	}
}

// Wait is how long an account has to wait because of what others have used; 0 if it may write now.
func (c *Common) Wait(of Account, now time.Time) time.Duration {
	if of == c.own {
		return 0
	}
	c.pass(now)
	left, need := min(c.bytes.left/c.limits.Bytes.PerSecond, c.writes.left/c.limits.Writes.PerSecond), 0.0
	mine, other := c.turn(of), c.other(of, now)
	if other.of != "" {
		need = max(-overdrawn.Seconds(), min(kept.Seconds(), weight*mine.beyond(other)))
	}
	if left > need {
		return 0
	}
	wait := seconds(need-left) + time.Millisecond
	if other.of != "" && other.before(mine) {
		wait = min(latest, max(wait, soonest, ofMany*time.Duration(len(c.waiting))))
	}
	return wait
}

// Queue says that something of an account waits, and is looked at again after some time.
func (c *Common) Queue(of Account, after time.Duration, now time.Time) {
	if of == c.own {
		return
	}
	c.waiting[of] = now.Add(after + time.Second)
	c.rank(c.turn(of))
}

// Spend takes what was written because of an account, and gives it back where that is negative.
func (c *Common) Spend(of Account, bytes, writes float64, now time.Time) {
	if of == c.own {
		return
	}
	c.pass(now)
	c.bytes.left = min(c.bytes.left-bytes, c.limits.Bytes.Most)
	c.writes.left = min(c.writes.left-writes, c.limits.Writes.Most)
	cost := bytes/c.limits.Bytes.PerSecond + writes/c.limits.Writes.PerSecond
	for _, id := range Path(string(c.own), of, c.parent) {
		if c.used[id] += cost; c.used[id] <= 0 {
			delete(c.used, id)
		}
	}
	if cost > 0 { // what of it waits still says so again
		delete(c.waiting, of)
		c.leave(of)
	}
}

// pass lets time pass.
func (c *Common) pass(now time.Time) {
	c.bytes.refill(c.limits.Bytes, now)
	c.writes.refill(c.limits.Writes, now)
	if now.After(c.until) {
		clear(c.paths)
		c.until = now.Add(pathsFresh)
	}
	times := min(30, int(now.Sub(c.halved)/lately))
	if times <= 0 {
		return
	}
	for id := range c.used {
		if c.used[id] /= float64(uint(1) << times); c.used[id] < forgotten {
			delete(c.used, id)
		}
	}
	c.halved = now
}

// other is the first of those that wait beside an account, as far as that is known from a moment ago.
func (c *Common) other(than Account, now time.Time) turn {
	if now.Sub(c.looked) >= fresh {
		c.first, c.second, c.looked = turn{}, turn{}, now
		for of, until := range c.waiting {
			if now.After(until) {
				delete(c.waiting, of)
			} else {
				c.rank(c.turn(of))
			}
		}
	}
	if c.first.of == than {
		return c.second
	}
	return c.first
}

// rank notes a turn if it is among the first two.
func (c *Common) rank(t turn) {
	c.leave(t.of)
	switch {
	case c.first.of == "" || t.before(c.first):
		c.first, c.second = t, c.first
	case c.second.of == "" || t.before(c.second):
		c.second = t
	}
}

func (c *Common) leave(of Account) {
	if c.first.of == of {
		c.first, c.second = c.second, turn{}
	} else if c.second.of == of {
		c.second = turn{}
	}
}

// turn is where an account comes among those that wait.
type turn struct {
	of   Account
	path turns.Path
	used []float64
}

func (c *Common) turn(of Account) turn {
	path := c.paths[of]
	if path == nil {
		path = Path(string(c.own), of, c.parent)
		if len(c.paths) < manyPaths {
			c.paths[of] = path
		}
	}
	t := turn{of: of, path: path, used: make([]float64, 0, len(path))}
	for _, id := range t.path {
		t.used = append(t.used, c.used[id])
	}
	return t
}

// before says that a turn comes before another one: where their paths part, less was written.
func (t turn) before(other turn) bool {
	i := t.parts(other)
	return cmp.Or(cmp.Compare(t.used[i], other.used[i]), cmp.Compare(t.path[i], other.path[i])) < 0
}

// beyond is how much more was written than because of another one, in seconds.
func (t turn) beyond(other turn) float64 {
	i := t.parts(other)
	return t.used[i] - other.used[i]
}

// parts is where the paths of two accounts part: none is the beginning of another one.
func (t turn) parts(other turn) (i int) {
	for t.path[i] == other.path[i] && i < min(len(t.path), len(other.path))-1 {
		i++
	}
	return i
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
