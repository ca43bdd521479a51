// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package pace

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// halves gives one half to those that are honest, and the other one to those that are invented.
func halves(total int, wants map[string]int) map[string]int {
	shares, of := map[string]int{}, map[bool]int{}
	for id := range wants {
		of[strings.HasPrefix(id, "honest")]++
	}
	for id := range wants {
		shares[id] = total / 2 / of[strings.HasPrefix(id, "honest")]
	}
	return shares
}

// run has peers ask for all that they can get, each piece at a cost, and returns what each got.
func run(throttle *Throttle, during time.Duration, cost int, peers ...string) map[string]int {
	var mu sync.Mutex
	var all sync.WaitGroup
	got, end := map[string]int{}, time.Now().Add(during)
	for _, id := range peers {
		all.Go(func() {
			for time.Now().Before(end) {
				throttle.Wait(id, cost)
				time.Sleep(time.Millisecond)
				mu.Lock()
				got[id] += cost
				mu.Unlock()
			}
		})
	}
	all.Wait()
	return got
}

// TestInventionsHaveOnePace: a hundred peers that one member invented cost no more than a few do, once the burst of all is used up, and
// one that another member admitted has its pace beside them. When they are quiet, what they had is there for others again.
func TestInventionsHaveOnePace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		throttle := New(1000, 2000, 4, halves)
		peers := []string{"honest"}
		for i := range 100 {
			peers = append(peers, fmt.Sprint("invented-", i))
		}
		burst, first := 101*2000, run(throttle, 5*time.Second, 10, peers...)
		second := run(throttle, time.Minute, 10, peers...)
		sum := 0
		for _, id := range peers {
			sum += first[id] + second[id]
		}
		if most := burst + 65*4000*3/2; sum > most {
			t.Errorf("in all they cost %d, more than %d", sum, most)
		}
		if got := second["honest"]; got < 60*900 {
			t.Errorf("the honest one got %d in a minute", got)
		}
		time.Sleep(10 * time.Second)
		run(throttle, 3*time.Second, 10, "invented-1")
		if got := run(throttle, 10*time.Second, 10, "invented-1")["invented-1"]; got < 10*900 {
			t.Errorf("alone an invented one gets %d in ten seconds", got)
		}
	})
}

// TestPaceOfOne: a peer has its burst, and then its pace, whoever else is there.
func TestPaceOfOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		throttle := New(1000, 2000, 4, func(int, map[string]int) map[string]int {
			t.Error("it is shared without need")
			return nil
		})
		for id, got := range run(throttle, 10*time.Second, 100, "a", "b") {
			if got < 11500 || got > 12500 {
				t.Errorf("%s got %d", id, got)
			}
		}
	})
}

// TestWaitEnds: a peer that is forgotten, and any at the end, wait no longer.
func TestWaitEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		throttle := New(1, 1, 4, halves)
		began := time.Now()
		for _, end := range []func(){func() { throttle.Forget("a") }, throttle.End} {
			done := make(chan struct{})
			go func() { defer close(done); throttle.Wait("a", 1); throttle.Wait("a", 1) }()
			synctest.Wait()
			end()
			<-done
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("waited for %v", took)
		}
	})
}
