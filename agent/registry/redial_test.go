// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A member that changes its address all the time is dialled three times at once, then every ten seconds, and at last at its
// last address; another member is dialled at once.
func TestRedials(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		address, dialled, dials := map[string]int{}, map[string]int{}, map[string]int{}
		r := newRedials(func(id string) {
			mu.Lock()
			defer mu.Unlock()
			dialled[id] = address[id]
			dials[id]++
		}, slog.New(slog.DiscardHandler))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); _ = r.members.Run(ctx, 1) }()
		change := func(id string) {
			mu.Lock()
			address[id]++
			mu.Unlock()
			r.changed(id)
			synctest.Wait()
		}
		for i := range redialBurst {
			if change("bad"); dials["bad"] != i+1 {
				t.Errorf("after change %d it was dialled %d times", i+1, dials["bad"])
			}
		}
		for range 1000 {
			change("bad")
			time.Sleep(100 * time.Millisecond)
		}
		synctest.Wait() // it may be dialled at this very moment
		if n := dials["bad"]; n < redialBurst+9 || n > redialBurst+10 {
			t.Errorf("it was dialled %d times in 100 s", n)
		}
		if change("good"); dials["good"] != 1 {
			t.Error("another member waits")
		}
		time.Sleep(redialEvery)
		synctest.Wait()
		if dialled["bad"] != address["bad"] {
			t.Errorf("it was dialled at address %d last, its last is %d", dialled["bad"], address["bad"])
		}
		for i := range 2*manyRedials + 1 {
			r.changed(fmt.Sprint(i))
			time.Sleep(time.Minute)
		}
		synctest.Wait()
		if n := len(r.pace); n > 2*manyRedials {
			t.Errorf("%d members are remembered", n)
		}
		cancel()
		<-done
		time.Sleep(time.Minute)
	})
}
