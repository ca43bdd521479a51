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
// admitted gets its share beside them at once, in each period. What was given back is there again.
func TestInventionsHaveOneBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBudget(64, 10*time.Second, halves)
		for range 6 {
			invented := 0
			for i := range 4096 {
				n, again := b.Take(fmt.Sprint("invented-", i), 2)
				if invented += n; (n == 0) != (again > 0) || again > 10*time.Second {
					t.Fatalf("%d are taken, and more may be in %s", n, again)
				}
			}
			honest := 0
			for range 20 {
				n, _ := b.Take("honest", 2)
				honest += n
			}
			if invented != 64 || honest != 8 {
				t.Errorf("inventions took %d of 64, and an honest one %d of its half of 16", invented, honest)
			}
			b.Give("honest", 2)
			if n, _ := b.Take("honest", 3); n != 2 {
				t.Errorf("%d of 2 that were given back are there", n)
			}
			time.Sleep(10 * time.Second)
		}
		if n, _ := b.Take("invented-1", 100); n != 64 {
			t.Errorf("alone an invented one gets %d", n)
		}
	})
}

// TestGivenBackLate: what was taken in an earlier period is not given back in this one.
func TestGivenBackLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBudget(4, time.Second, halves)
		b.Take("honest", 4)
		time.Sleep(time.Second)
		b.Take("honest-2", 1)
		b.Give("honest", 4)
		if n, _ := b.Take("honest-2", 9); n != 3 || b.sum != 4 {
			t.Errorf("%d are taken, %d in all", n, b.sum)
		}
	})
}
