// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package pace

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// TestInventionsHaveOneBudget: thousands of peers that one member invented get what there is, and no more, and one that another member
// admitted gets its share beside them at once, in each period. A place that was given back is there again.
func TestInventionsHaveOneBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBudget(64, 10*time.Second, halves)
		for range 6 {
			invented := 0
			for i := range 512 {
				taken, again := b.Take(fmt.Sprint("invented-", i), false)
				if taken {
					invented++
				}
				if taken == (again > 0) || again > 10*time.Second {
					t.Fatalf("a place is taken: %v, and one may be there in %s", taken, again)
				}
			}
			honest := 0
			for range 20 {
				if taken, _ := b.Take("honest", false); taken {
					honest++
				}
			}
			if invented != 64 || honest != 8 {
				t.Errorf("inventions took %d of 64, and an honest one %d of its half of 16", invented, honest)
			}
			b.Give("honest")
			if taken, _ := b.Take("honest", false); !taken {
				t.Error("a place that was given back is not there")
			}
			time.Sleep(10 * time.Second)
		}
	})
}

// TestDivisionsAreFew: what it takes to divide the reserve is a part of the time, however many ask; one that was not heard of waits for
// the next division.
func TestDivisionsAreFew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const took = 5 * time.Millisecond
		divisions := 0
		b := NewBudget(4, time.Second, func(total int, wants map[string]int) map[string]int {
			divisions++
			time.Sleep(took)
			return halves(total*64, wants)
		})
		for i := range 900 {
			b.Take(fmt.Sprint("invented-", i), false)
			time.Sleep(time.Millisecond)
		}
		if most := 2 * int(time.Second/(calm*took)); divisions < 2 || divisions > most {
			t.Errorf("divided %d times in a second, of which each takes %s", divisions, took)
		}
		b.Take("invented-0", false) // divides
		taken, again := b.Take("honest", false)
		if taken || again <= 0 || again > calm*took {
			t.Errorf("one that was not heard of may ask again after %s", again)
		}
		time.Sleep(again)
		if taken, _ := b.Take("honest", false); !taken {
			t.Error("it gets nothing then")
		}
	})
}

// TestGivenBackLate: a place of an earlier period is not given back in this one.
func TestGivenBackLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBudget(1, time.Second, halves)
		b.Take("honest", false)
		time.Sleep(time.Second)
		b.Take("honest-2", false)
		if b.Give("honest"); b.sum != 1 {
			t.Errorf("%d are taken in all", b.sum)
		}
	})
}
