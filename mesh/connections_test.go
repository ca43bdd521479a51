// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"context"
	"net"
	"testing"
	"time"
)

// stuffed serves a peer more than it takes.
func stuffed(ctx context.Context, _ Caller, conn net.Conn) {
	_ = conn.SetWriteDeadline(time.Now().Add(time.Second))
	for {
		if _, err := conn.Write(make([]byte, 4096)); err != nil {
			break
		}
	}
	<-ctx.Done()
}

// TestNobodyWaitsForThoseWhoTakeNothing: their connections end with their pin at once.
func TestNobodyWaitsForThoseWhoTakeNothing(t *testing.T) {
	bubble(t, time.Millisecond, func(t *testing.T, g *group) {
		m := g.add("m", func(o *Options) { o.Protocols = map[string]Handler{"stuffed/1": {Serve: stuffed}} })
		i := newIntruder(t)
		if err := m.trust.Pin("intruder", i.identity.PublicKey()); err != nil {
			t.Fatal(err)
		}
		for range maxPeerConns {
			if _, err := i.dial(m, i.config("stuffed/1")); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(10 * time.Second)
		if n := m.port.conns.count("intruder", "stuffed/1"); n != maxPeerConns {
			t.Fatalf("%d connections", n)
		}
		m.trust.Forget("intruder")
		time.Sleep(time.Second)
		if n := m.port.conns.count("intruder", "stuffed/1"); n > 0 {
			t.Errorf("a second after the pin there are %d connections", n)
		}
	})
}
