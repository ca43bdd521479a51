// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package lobby

import (
	"fmt"
	"net"
	"testing"
)

// from is a connection from an address.
type from struct {
	net.Conn
	address net.Addr
	closed  bool
}

func (c *from) RemoteAddr() net.Addr { return c.address }

func (c *from) Close() error {
	c.closed = true
	return nil
}

func (l *Lobby) enter(t *testing.T, ip string) (*from, *Place) {
	t.Helper()
	c := &from{address: &net.TCPAddr{IP: net.ParseIP(ip), Port: 1}}
	p, _ := l.Enter(c, func() {})
	if p == nil {
		t.Fatal("there is no place")
	}
	return c, p
}

// A network that floods the lobby loses its own connections, and nobody else's.
func TestNetworksShareTheLobby(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ others, flood string }{
		"IPv4":         {"10.0.%d.1", "192.0.2.%d"},
		"IPv6":         {"2001:db8:%d::1", "2001:db8:ffff:00%02x::1"},
		"IPv4 in IPv6": {"::ffff:10.0.%d.1", "::ffff:192.0.2.%d"},
	} {
		var l Lobby
		var others []*from
		for i := range Size / 2 {
			c, _ := l.enter(t, fmt.Sprintf(tc.others, i))
			others = append(others, c)
		}
		var flood []*from
		var places []*Place
		for i := range 20 * Size {
			c, p := l.enter(t, fmt.Sprintf(tc.flood, i%256))
			flood, places = append(flood, c), append(places, p)
			if i >= Size/2 {
				l.Leave(places[i-Size/2]) // it was evicted, and its handler returns
			}
		}
		for i, c := range others {
			if c.closed {
				t.Errorf("%s: connection %d of another network was ended", name, i)
			}
		}
		for i, c := range flood {
			if stays := i >= len(flood)-Size/2; c.closed == stays {
				t.Fatalf("%s: connection %d of the flood is closed: %t", name, i, c.closed)
			}
		}
		if l.Len() != Size || l.evicted != 0 {
			t.Errorf("%s: %d have a place, %d were evicted and have not left", name, l.Len(), l.evicted)
		}
		for _, p := range places[len(places)-Size/2:] {
			l.Leave(p)
		}
		if l.Len() != Size/2 || len(l.shares) != Size/2 {
			t.Errorf("%s: when the flood is over %d have a place, of %d networks", name, l.Len(), len(l.shares))
		}
	}
}

// Members behind one address do not lose their places to somebody with many networks.
func TestSmallSharesAreEqual(t *testing.T) {
	t.Parallel()
	var l Lobby
	for i := range Size - 1 {
		l.enter(t, fmt.Sprintf("2001:db8:1:%02x00::1", i)) // somebody with many networks holds what he can
	}
	var members []*from
	for range smallShare {
		c, _ := l.enter(t, "192.0.2.1")
		members = append(members, c)
	}
	for i, c := range members {
		if c.closed {
			t.Errorf("connection %d of members behind one address was ended", i)
		}
	}
}

// Where each network has one place, the oldest of all goes; and so it is where there are no addresses.
func TestOldestGoes(t *testing.T) {
	t.Parallel()
	var l Lobby
	first, _ := l.enter(t, "10.0.0.1")
	second, _ := l.enter(t, "10.0.1.1")
	for i := 2; i <= Size; i++ {
		l.enter(t, fmt.Sprintf("10.1.%d.1", i))
	}
	if !first.closed || second.closed {
		t.Errorf("the first is closed: %t, the second: %t", first.closed, second.closed)
	}
	var local Lobby
	oldest := &from{address: &net.UnixAddr{}}
	local.Enter(oldest, func() {})
	for range Size {
		local.Enter(&from{address: &net.UnixAddr{}}, func() {})
	}
	if !oldest.closed {
		t.Error("the oldest without an address is not closed")
	}
}

// Handlers that do not return let nobody in for ever.
func TestLobbyCountsWhoHasNotLeft(t *testing.T) {
	t.Parallel()
	var l Lobby
	_, first := l.enter(t, "10.0.0.1")
	for range 2*Size - 1 {
		l.enter(t, "10.0.0.1")
	}
	one := &from{address: &net.TCPAddr{}}
	if p, evicts := l.Enter(one, func() {}); p != nil || !evicts || !one.closed {
		t.Error("nobody has left, and there is one more place")
	}
	if !l.Leave(first) {
		t.Error("the first one was not evicted")
	}
	if p, _ := l.Enter(&from{address: &net.TCPAddr{}}, func() {}); p == nil {
		t.Error("one has left, and there is no place")
	}
	l.Close()
	if p, evicts := l.Enter(one, func() {}); p != nil || evicts {
		t.Error("it is closed, and there is a place")
	}
}
