// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"bytes"
	"net"
	"runtime"
	"runtime/debug"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/roster-mesh/roster/mesh/lobby"
	"github.com/roster-mesh/roster/mesh/meshtest"
)

// TestSlowLoris: strangers that open connections and say nothing, or a byte at
// a time, lose them; a member gets in all the while.
func TestSlowLoris(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, meshtest.NewNetwork(time.Millisecond))
		a, b := g.add("a"), g.add("b")
		var conns []net.Conn
		for range 2 * lobby.Size {
			conn, err := g.network.Host("evil").Dial(t.Context(), a.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := conn.Write([]byte{22, 3, 1, 1, 0}); err != nil { // begins a ClientHello
				t.Fatal(err)
			}
			conns = append(conns, conn)
		}
		synctest.Wait()
		if n := a.dropped(dropEvicted); n != lobby.Size {
			t.Errorf("%d handshakes gave way", n)
		}
		g.swap(a, b)
		await(t, handshakeTimeout/2, "a member gets in during the attack", formed(a, b))
		time.Sleep(handshakeTimeout)
		if n := a.dropped(dropTimeout); n < lobby.Size-10 {
			t.Errorf("%d handshakes timed out", n)
		}
		for _, conn := range conns {
			_ = conn.Close()
		}
		g.end()
		time.Sleep(time.Minute)
	})
}

// TestFloodCostsBoundedMemory: garbage from strangers and from a pinned peer,
// as fast as it goes.
func TestFloodCostsBoundedMemory(t *testing.T) {
	g := newGroup(t, nil)
	defer g.end()
	m, i := g.add("a"), newIntruder(t)
	if err := m.trust.Pin("intruder", i.identity.PublicKey()); err != nil {
		t.Fatal(err)
	}
	// The pinned peer is let in before the strangers come: its handshake may give way to theirs.
	frame := appendFrame(nil, frameMessage, bytes.Repeat([]byte{'['}, maxFrame))
	conn, err := i.dial(m, i.config(protocolPacket))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write(frame); err != nil {
		t.Fatal(err)
	}
	await(t, deadline, "the pinned peer is let in", func() bool { return m.state.rejected() == 1 })
	defer debug.SetGCPercent(debug.SetGCPercent(10)) // so that the heap is little more than what is in use
	peak := watchMemory(t)
	garbage := bytes.Repeat([]byte{0x16, 3, 1, 0x40, 0}, 13000)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				raw, err := net.Dial("tcp", m.Addr().String())
				if err != nil {
					continue
				}
				_, _ = raw.Write(garbage)
				_ = raw.Close()
			}
		})
	}
	for range 499 { // 32 MiB
		if _, err := conn.Write(frame); err != nil {
			t.Fatal(err)
		}
	}
	wg.Wait()
	await(t, deadline, "all messages are refused", func() bool { return m.state.rejected() == 500 })
	if grown := peak(); grown > 24<<20 {
		t.Errorf("the heap grew by %d MiB", grown>>20)
	} else {
		t.Logf("the heap grew by %d MiB at most", grown>>20)
	}
}

// watchMemory samples the heap until the returned function is called, which
// returns by how much it grew.
func watchMemory(t *testing.T) func() uint64 {
	t.Helper()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	before, most := stats.HeapInuse, stats.HeapInuse
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			case <-time.After(5 * time.Millisecond):
				runtime.ReadMemStats(&stats)
				most = max(most, stats.HeapInuse)
			}
		}
	}()
	return func() uint64 {
		close(stop)
		<-done
		return most - before
	}
}
