// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/roster-mesh/roster/mesh/lobby"
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
		for range 2 * lobby.Size {
			if _, err := i.dial(m, i.config("open/1")); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Second)
		if running.Load() != lobby.Size || most.Load() > lobby.Size {
			t.Errorf("%d handlers run, there were %d", running.Load(), most.Load())
		}
	})
}
