// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/roster-mesh/roster/syncrules/engine/turns"
)

// crowd has a quota written from by many clusters, each key again and again when it is told to.
type crowd struct {
	*Quota[string]
	t      *testing.T
	common *Common
	begin  time.Time
	now    time.Time
	due    map[string]time.Time
	bytes  map[Account]float64
	size   map[Account]int64
	first  map[string]time.Time // when a key was written first
	busy   []func()             // what workers have not charged yet
	looks  int
}

// newCrowd has a cluster bad admit whoever is named after it, and the own cluster all others.
func newCrowd(t *testing.T, limits Limits) *crowd {
	begin := time.Unix(0, 0)
	common := NewCommon(limits, "own", func(id string) string {
		if strings.HasPrefix(id, "bad-") {
			return "bad"
		}
		if strings.HasPrefix(id, "lost-") {
			return ""
		}
		return "own"
	}, begin)
	limits.Common = common
	return &crowd{
		Quota: New[string](limits, begin), t: t, common: common, begin: begin, now: begin,
		due: map[string]time.Time{}, bytes: map[Account]float64{}, size: map[Account]int64{}, first: map[string]time.Time{},
	}
}

// wants has a cluster change so many objects of a size as fast as it can, from now on.
func (c *crowd) wants(of Account, keys int, size int64) {
	c.size[of] = size
	for k := range keys {
		c.due[fmt.Sprint(of, " ", k)] = c.now
	}
}

// tries has a worker begin to write a key, and reports whether it may now.
func (c *crowd) tries(of Account, k string, size int64) bool {
	c.looks++
	may := c.May(of, k, c.now)
	if may {
		c.bytes[of] += float64(size)
		if c.first[k].IsZero() {
			c.first[k] = c.now
		}
		c.busy = append(c.busy, func() { c.Spend(of, k, size, c.now) })
	} else {
		c.Wait(of, k, c.now)
	}
	c.take()
	return may
}

func (c *crowd) take() {
	for k, after, ok := c.Next(c.now); ok; k, after, ok = c.Next(c.now) {
		if at := c.now.Add(after); c.due[k].IsZero() || c.due[k].After(at) || c.due[k].Before(c.now) {
			c.due[k] = at
		}
	}
}

// passes lets time pass. Like workers, up to sixteen writes are permitted before the first of them is charged.
func (c *crowd) passes(d time.Duration, each func(second int)) {
	const step = 20 * time.Millisecond
	for end := c.now.Add(d); c.now.Before(end); c.now = c.now.Add(step) {
		if passed := c.now.Sub(c.begin); each != nil && passed%time.Second == 0 {
			each(int(passed / time.Second))
		}
		for _, write := range c.busy {
			write()
		}
		c.busy = nil
		c.take()
		var due []string
		for k, at := range c.due {
			if !at.After(c.now) {
				due = append(due, k)
			}
		}
		slices.SortFunc(due, func(a, b string) int { return cmp.Or(c.due[a].Compare(c.due[b]), cmp.Compare(a, b)) })
		for _, k := range due[:min(16, len(due))] {
			of, _, _ := strings.Cut(k, " ")
			delete(c.due, k)
			if c.tries(Account(of), k, c.size[Account(of)]) {
				if c.size[Account(of)] > 0 {
					c.due[k] = c.now.Add(step) // it changes again
				}
			} else if _, told := c.due[k]; !told {
				c.due[k] = c.now.Add(time.Hour) // it is told
			}
		}
	}
}

func (c *crowd) sum(prefix string) (sum float64) {
	for of, n := range c.bytes {
		if strings.HasPrefix(string(of), prefix) {
			sum += n
		}
	}
	return sum
}

// However many clusters a member invents, each with a full account: all together write no more than two accounts have, and what
// another cluster changes meanwhile is written at once.
func TestInventionsShareWrites(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		size  int64
		lost  string
		limit Limits
	}{
		"many small objects": {1, "bad-", NewLimits(100_000, 1000, 2000, 20)},
		"large objects":      {2000, "bad-", NewLimits(100_000, 1000, 1e9, 1e9)},
		"nobody knows whose": {2000, "lost-", NewLimits(100_000, 1000, 1e9, 1e9)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCrowd(t, tc.limit)
			for i := range 200 {
				c.wants(Account(fmt.Sprint(tc.lost, i)), 2, tc.size)
			}
			waited := 0
			c.passes(10*time.Minute, func(second int) {
				if second%10 == 0 && !c.tries(good, fmt.Sprint("honest ", second), tc.size) {
					waited++
				}
			})
			if waited > 0 {
				t.Errorf("the honest cluster waited with %d of 60 changes", waited)
			}
			most := 2*tc.limit.Bytes.Most + (600+30)*2*tc.limit.Bytes.PerSecond + 16*float64(tc.size)
			if tc.size == 1 {
				most = 2*tc.limit.Writes.Most + (600+30)*2*tc.limit.Writes.PerSecond + 16
			}
			if sum := c.sum(""); sum > most || sum < most*0.9 {
				t.Errorf("%.0f bytes are written, at most %.0f are allowed, and less than nine tenths of that is a waste", sum, most)
			}
			if perSecond := c.looks / 600; perSecond > 300 { // 200 by those that wait, and 40 that are written
				t.Errorf("it is looked at keys %d times a second", perSecond)
			}
		})
	}
}

// In a large group that one member formed, all of whose clusters have much to write at once, each has as much as others, also
// beside one with inventions; a cluster that changes little waits for none of them.
func TestManySiblingsShareWrites(t *testing.T) {
	t.Parallel()
	c := newCrowd(t, NewLimits(100_000, 1000, 1e9, 1e9))
	for i := range 50 {
		c.wants(Account(fmt.Sprint("honest-", i)), 4, 1000)
	}
	for i := range 200 {
		c.wants(Account(fmt.Sprint("bad-", i)), 4, 2000)
	}
	c.passes(2*time.Minute, nil) // the burst is used up
	clear(c.bytes)
	changes, late := 0, 0
	c.passes(10*time.Minute, func(second int) {
		if second%10 == 0 && second < 700 {
			changes++
			c.tries(good, fmt.Sprint(good, " ", second), 200)
		}
	})
	for k, at := range c.first {
		if n, small := strings.CutPrefix(k, "good "); small {
			second, err := time.ParseDuration(n + "s")
			if changes--; err != nil || at.Sub(c.begin.Add(second)) > 10*time.Second {
				late++
			}
		}
	}
	if changes != 0 || late > 0 {
		t.Errorf("of the cluster that changes little %d changes are late, and %d were never written", late, changes)
	}
	each := c.sum("") / 51
	for i := range 50 {
		if n := c.bytes[Account(fmt.Sprint("honest-", i))]; n < each/2 || n > each*2 {
			t.Errorf("honest-%d has written %.0f bytes, and each has about %.0f", i, n, each)
		}
	}
	if n := c.sum("bad-"); n > 3*each {
		t.Errorf("the inventions have written %.0f bytes together, another cluster %.0f", n, each)
	}
}

// When nobody floods any more, accounts alone count, and what was written is forgotten.
func TestCrowdEnds(t *testing.T) {
	t.Parallel()
	c := newCrowd(t, NewLimits(100_000, 1000, 1e9, 1e9))
	for i := range 100 {
		c.wants(Account(fmt.Sprint("bad-", i)), 2, 10_000)
	}
	c.passes(time.Minute, nil)
	if c.common.Wait("bad-7", c.now) == 0 {
		t.Fatal("it is not used up")
	}
	if text := c.Text("Secret x", "bad-7", func(string) string { return "seven" }, c.now); !strings.Contains(text, "all other clusters together") {
		t.Error(text)
	}
	if c.common.Wait("own", c.now) > 0 {
		t.Error("the own cluster waits for others")
	}
	c.now = c.now.Add(20 * time.Minute)
	if wait := c.common.Wait("bad-7", c.now); wait > 0 {
		t.Errorf("it waits %s", wait)
	}
	c.Refund("bad-1", 1e9, c.now)
	if left := c.common.bytes.left; left > 200_000 {
		t.Errorf("%v bytes are left", left)
	}
	if len(c.common.used)+len(c.common.waiting) > 0 {
		t.Errorf("it remembers %v and %v", c.common.used, c.common.waiting)
	}
}

// A write that was not made costs nobody anything, and gains nothing.
func TestRefundOfAll(t *testing.T) {
	t.Parallel()
	c := newCrowd(t, NewLimits(1000, 10, 1e9, 1e9))
	c.Spend("bad-1", "k", 2000, c.now)
	before, used := c.common.bytes.left, c.common.used["bad"]
	for range 100 {
		c.Spend("bad-1", "k", 500, c.now)
		c.Refund("bad-1", 500, c.now)
	}
	if c.common.bytes.left != before || c.common.used["bad"]-used > 1e-6 || used-c.common.used["bad"] > 1e-6 {
		t.Errorf("%v and %v are left of %v and %v", c.common.bytes.left, c.common.used["bad"], before, used)
	}
}

// Who admitted whom may be a long chain, or a circle while it changes.
func TestChains(t *testing.T) {
	t.Parallel()
	next := func(id string) string { return id + "'" }
	if p := Path("own", "a", next); len(p) != 3 || p[0] != "" || p[1] != "a" {
		t.Errorf("%q", p)
	}
	for want, parents := range map[string]map[string]string{" a a/": {"a": "b", "b": "a"}, "b a a/": {"a": "b", "b": "own"}} {
		if p := strings.Join(Path("own", "a", func(id string) string { return parents[id] }), " "); p != want {
			t.Errorf("%q, want %q", p, want)
		}
	}
}

// The rules of a cluster are beside it with all that it has and admitted, and below them the owners of objects as they are in the tree. So no path is the beginning of another one.
func TestPaths(t *testing.T) {
	t.Parallel()
	parents := map[string]string{"b": "a", "a": "own"}
	paths := NewPaths("own", func(id string) string { return parents[id] })
	var all []string
	for by, want := range map[By]string{
		{"", "b"}:     "a b b/",
		{"own", "b"}:  "a b b/",
		{"own", "a"}:  "a a/",
		{"a", "b"}:    "a: a::a a::b a::b/",
		{"b", "a"}:    "a b: b::a b::a/",
		{"b", "b"}:    "a b: b::a b::b b::b/",
		{"a", "lost"}: "a: a:: a::lost a::lost/",
		{"", "own"}:   "own/",
	} {
		p := strings.ReplaceAll(strings.Join(paths.of(by, time.Unix(0, 0)), " "), between, ":")
		if p != want {
			t.Errorf("%v: %q, want %q", by, p, want)
		}
		all = append(all, p)
	}
	slices.Sort(all)
	for i, p := range slices.Compact(all)[1:] {
		if strings.HasPrefix(p, all[i]+" ") {
			t.Errorf("%q is the beginning of %q", all[i], p)
		}
	}
	parents["b"] = "own"
	if p := paths.of(By{Owner: "b"}, time.Unix(2, 0)); len(p) != 2 {
		t.Errorf("after two seconds %q", p)
	}
}

// After a restart there is as much less as in each account.
func TestCommonAfterRestart(t *testing.T) {
	t.Parallel()
	limits := NewLimits(1000, 10, 200, 2).AfterRestart(10 * time.Second)
	c := NewCommon(limits, "own", nil, time.Unix(0, 0))
	if c.bytes.left != 200 || c.writes.left != 40 {
		t.Errorf("%v bytes and %v writes", c.bytes.left, c.writes.left)
	}
}

// BenchmarkCrowd is one look at a key where 4,096 clusters wait.
func BenchmarkCrowd(b *testing.B) {
	now := time.Unix(0, 0)
	c := NewCommon(NewLimits(1000, 10, 1e9, 1e9), "own", func(id string) string {
		if id == "bad" {
			return "own"
		}
		return "bad"
	}, now)
	c.Spend("bad", 1e6, 1, now)
	ids := make([]Account, 4096)
	for i := range ids {
		ids[i] = Account(fmt.Sprint("bad-", i))
		c.Spend(ids[i], 1000, 1, now)
		c.Queue(ids[i], time.Hour, now)
	}
	for i := 0; b.Loop(); i++ {
		now = now.Add(5 * time.Millisecond)
		of := ids[i%len(ids)]
		c.Queue(of, c.Wait(of, now), now)
	}
}

// Paths are kept for a moment, and not of everybody: then it is seen who admitted whom since.
func TestPathsAreKeptForAMoment(t *testing.T) {
	now, parents := time.Now(), map[string]string{}
	c := NewCommon(NewLimits(100, 10, 5, 1), "own", func(id string) string { return parents[id] }, now)
	c.pass(now)
	if path := c.turn("a").path; !slices.Equal(path, turns.Path{"", "a", "a/"}) {
		t.Errorf("the path of a cluster that nobody admitted is %q", path)
	}
	parents["a"] = "own"
	c.pass(now.Add(pathsFresh + 1))
	if path := c.turn("a").path; !slices.Equal(path, turns.Path{"a", "a/"}) {
		t.Errorf("once it is admitted the path is %q", path)
	}
	for i := range 2 * manyPaths {
		c.turn(Account(fmt.Sprint("invented-", i)))
	}
	if len(c.paths) > manyPaths {
		t.Errorf("%d paths are kept", len(c.paths))
	}
}
