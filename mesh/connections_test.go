// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
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

// TestInventionsLeaveRoomForConnections: clusters that one member invented take all connections that there are. A peer that another
// one admitted has its share of them nevertheless, for which one of those ends at a time, and no invented one gets more.
func TestInventionsLeaveRoomForConnections(t *testing.T) {
	const most = 8
	honest := func(id string) bool { return strings.HasPrefix(id, "honest") }
	conns := newConnections(most, func(total int, wants map[string]int) map[string]int { // a half for both kinds
		shares, of := map[string]int{}, map[bool]int{}
		for id, want := range wants {
			of[honest(id)] += want
		}
		for id := range wants {
			shares[id] = max(total/2, total-of[!honest(id)])
			if !honest(id) {
				shares[id] /= len(wants) - min(1, of[true])
			}
		}
		return shares
	})
	open := func(id string) (ended func() bool, err error) {
		ours, theirs := net.Pipe()
		t.Cleanup(func() { _, _ = ours.Close(), theirs.Close() })
		_, err = conns.hold(ours, Caller{ClusterID: id}, protocolPacket, func() {})
		return func() bool {
			_ = theirs.SetReadDeadline(time.Now().Add(deadline))
			_, err := theirs.Read(make([]byte, 1))
			return errors.Is(err, io.EOF)
		}, err
	}
	var ended []func() bool
	for i := range most {
		end, err := open(fmt.Sprint("invented-", i/2))
		if err != nil {
			t.Fatal(err)
		}
		ended = append(ended, end)
	}
	for i := range most / 2 {
		if _, err := open("honest"); err != nil {
			t.Fatalf("connection %d of an honest peer: %v", i, err)
		}
	}
	n := 0
	for i := range 4 {
		n += conns.count(fmt.Sprint("invented-", i), protocolPacket)
	}
	if n != most/2 || len(conns.list()) != most {
		t.Errorf("%d are left of those, of %d", n, len(conns.list()))
	}
	for _, id := range []string{"honest", "invented-9"} {
		if _, err := open(id); !errors.Is(err, errBusyPeer) {
			t.Errorf("one more of %s: %v", id, err)
		}
	}
	gone := make(chan bool, most)
	for _, end := range ended {
		go func() { gone <- end() }()
	}
	for range most / 2 {
		if !<-gone {
			t.Error("a connection that gave way is open still")
		}
	}
}
