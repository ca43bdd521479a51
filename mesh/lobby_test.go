// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"
)

// TestAnEvictedStrangerIsServedNoMore: its handler's context ends, too, so that there are never more handlers than places.
func TestAnEvictedStrangerIsServedNoMore(t *testing.T) {
	bubble(t, time.Millisecond, func(t *testing.T, g *group) {
		var running, most atomic.Int64
		m := g.add("m", func(o *Options) {
			o.Protocols = map[string]Handler{"open/1": {Unpinned: true, Serve: func(ctx context.Context, _ Caller, _ net.Conn) {
				most.Store(max(most.Load(), running.Add(1)))
				<-ctx.Done() // it looks at nothing else
				running.Add(-1)
			}}}
		})
		i := newIntruder(t)
		for range 2 * maxHandshakes {
			if _, err := i.dial(m, i.config("open/1")); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Second)
		if running.Load() != maxHandshakes || most.Load() > maxHandshakes {
			t.Errorf("%d handlers run, there were %d", running.Load(), most.Load())
		}
	})
}

// TestLobbyCountsWhoHasNotLeft: handlers that do not return let nobody in for ever.
func TestLobbyCountsWhoHasNotLeft(t *testing.T) {
	var l lobby
	enter := func() (*place, bool) {
		conn, _ := net.Pipe()
		return l.enter(conn, func() {})
	}
	first, _ := enter()
	for range 2*maxHandshakes - 1 {
		if p, _ := enter(); p == nil {
			t.Fatal("there is no place")
		}
	}
	if p, evicts := enter(); p != nil || !evicts {
		t.Error("nobody has left, and there is one more place")
	}
	if !l.leave(first) {
		t.Error("the first one was not evicted")
	}
	if p, _ := enter(); p == nil {
		t.Error("one has left, and there is no place")
	}
}
