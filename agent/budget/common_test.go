// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package budget_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/roster-mesh/roster/agent/budget"
	"github.com/roster-mesh/roster/syncrules/engine/quota"
)

// Budgets of several loops, each for many clusters, write no more together than two accounts have, and all is written in the end.
func TestBudgetsHaveOneInCommon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limits := quota.NewLimits(1000, 100, 1000, 1000)
		limits.Common = budget.NewCommon(limits, "own", func(string) string { return "own" })
		var written atomic.Int64
		began, loops := time.Now(), make([]*budget.Budget[string], 2)
		const clusters, keys, size = 60, 10, 50
		write := func(b *budget.Budget[string], k string) {
			if b.Write(k[:2], k, bytes(size), succeeds) == nil {
				written.Add(1)
			}
		}
		for i := range loops {
			loops[i] = budget.New(limits, func(k string, after time.Duration) {
				time.AfterFunc(after, func() { write(loops[i], k) })
			})
		}
		for i := range clusters * keys {
			for _, b := range loops {
				write(b, fmt.Sprintf("%02d-%d", i%clusters, i))
			}
		}
		if n := written.Load() * size; n > 2000+30*200+30*size || n < 2000 { // two accounts, and the grants of 30 seconds
			t.Errorf("%d bytes are written at once", n)
		}
		if err := loops[0].Write("own", "own", bytes(size), succeeds); err != nil {
			t.Error("the own cluster waits")
		}
		for written.Load() < 2*clusters*keys && time.Since(began) < time.Hour {
			time.Sleep(10 * time.Second)
			if n, most := written.Load()*size, 2000+int64(time.Since(began).Seconds()+30)*200+30*size; n > most {
				t.Fatalf("%d bytes are written after %s, want at most %d", n, time.Since(began), most)
			}
		}
		if n := written.Load(); n != 2*clusters*keys || time.Since(began) > 15*time.Minute {
			t.Errorf("%d of %d are written after %s", n, 2*clusters*keys, time.Since(began))
		}
	})
}
