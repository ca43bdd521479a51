// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package scale

import (
	"math"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

const (
	latency = 40 * time.Millisecond // one way, of every link
	// pause lies before and after a change: long enough for quiet.
	pause = 4 * time.Second
	// ruleSize is that of a ResourceSyncRule of some twenty lines.
	ruleSize = 500
	// clusterSize is that of a Cluster object with its endpoints and versions.
	clusterSize = 600
)

// result is what was measured of one system with one number of agents.
type result struct {
	System string
	Agents int
	// Of one change, the middle of all runs.
	Half, Most, All time.Duration
	// Worst is the slowest run of All.
	Worst     time.Duration
	Changes   int
	Missed    int // changes that did not reach all before the next one
	Change    int // bytes per agent per change, until quiet
	Idle      int // bytes per agent per idle minute
	Memory    int // bytes per agent, network included
	Join      time.Duration
	JoinBytes int // of all agents together, for one that joins
	Wall      time.Duration
}

// subject is a group of a system under test; its methods are called from within a bubble.
type subject interface {
	// change makes news at agent i that are seen when the returned tracker is told.
	change(i int, seen *tracker)
	// sent is the number of bytes handed to the network so far.
	sent() int64
	// join starts one more agent and returns what says whether it is a full member.
	join() (done func() bool)
}

// tracker notes when each agent first saw a change.
type tracker struct {
	mu    sync.Mutex
	start time.Time
	at    map[int]time.Duration
}

func newTracker() *tracker { return &tracker{start: time.Now(), at: map[int]time.Duration{}} }

func (s *tracker) see(agent int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.at[agent]; !ok {
		s.at[agent] = time.Since(s.start)
	}
}

func (s *tracker) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.at)
}

// reached is when that share of n agents had seen it, or the pause if they did not in time.
func (s *tracker) reached(n int, share float64) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	var times []time.Duration
	for _, at := range s.at {
		times = append(times, at)
	}
	slices.Sort(times)
	if needed := int(math.Ceil(float64(n) * share)); needed <= len(times) {
		return times[needed-1]
	}
	return pause
}

// measure lets a formed group rest, change and grow.
func measure(t *testing.T, s subject, n, changes int) result {
	t.Helper()
	r := result{Agents: n, Changes: changes}
	time.Sleep(30 * time.Second) // what the start left behind ends
	var half, most, all []time.Duration
	var idle, busy int64
	for i := range changes {
		before := s.sent()
		time.Sleep(pause)
		idle += s.sent() - before
		before = s.sent()
		seen := newTracker()
		s.change(i*n/changes, seen)
		time.Sleep(pause)
		busy += s.sent() - before
		if seen.count() < n {
			r.Missed++
		}
		half = append(half, seen.reached(n, 0.5))
		most = append(most, seen.reached(n, 0.99))
		all = append(all, seen.reached(n, 1))
	}
	rest := time.Duration(changes) * pause
	r.Idle = int(float64(idle) / float64(n) / rest.Minutes())
	// What is sent at rest is subtracted: probes and their handshakes go on meanwhile.
	r.Change = int(busy-idle) / n / changes
	r.Half, r.Most, r.All, r.Worst = middle(half), middle(most), middle(all), slices.Max(all)
	r.Memory = memory() / n
	before := s.sent()
	start := time.Now()
	done := s.join()
	for !done() {
		if time.Since(start) > 2*time.Minute {
			t.Errorf("no full member after %v", time.Since(start))
			return r
		}
		time.Sleep(20 * time.Millisecond)
	}
	r.Join = time.Since(start)
	time.Sleep(20 * time.Second)
	r.JoinBytes = int(s.sent() - before - int64(float64(idle)*float64(time.Since(start))/float64(rest)))
	return r
}

func middle(times []time.Duration) time.Duration {
	slices.Sort(times)
	return times[len(times)/2]
}

// memory is what is in use after a collection.
func memory() int {
	synctest.Wait()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int(stats.HeapAlloc + stats.StackInuse)
}
