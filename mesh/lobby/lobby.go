// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package lobby

import (
	"container/list"
	"context"
	"net"
	"net/netip"
	"sync"
)

// Size is how many strangers are served at a time. One more ends another,
// the oldest of its network: who holds connections open without finishing a
// handshake loses them first. A flood of handshakes from many networks can
// still delay those of members, which try again.
const Size = 128

// smallShare is how many places a network may have before it counts as one that has many.
const smallShare = Size / 8

// Lobby holds the connections of strangers. Its zero value is empty, and it is safe for concurrent use.
type Lobby struct {
	mu      sync.Mutex
	closed  bool
	places  list.List // of *Place, oldest first
	shares  map[netip.Prefix]int
	evicted int // that lost their place and have not left yet
}

// Place is what a stranger has in the lobby.
type Place struct {
	raw     net.Conn
	end     context.CancelFunc // of what serves it
	network netip.Prefix
	entry   *list.Element // nil once it was evicted
}

// evict ends what a stranger has here. Neither of the two blocks, even under the lock.
func (p *Place) evict() {
	p.end()
	_ = p.raw.Close()
}

// Enter takes a place, perhaps from another one, whose connection and context end. There is none after Close, and none
// while as many of those who lost theirs are still served as there are places: then the connection is closed.
func (l *Lobby) Enter(raw net.Conn, end context.CancelFunc) (p *Place, evicts bool) {
	p = &Place{raw: raw, end: end, network: networkOf(raw.RemoteAddr())}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || l.evicted >= Size {
		_ = raw.Close()
		return nil, !l.closed
	}
	if l.shares == nil {
		l.shares = map[netip.Prefix]int{}
	}
	l.shares[p.network]++
	if l.places.Len() >= Size {
		victim := l.largest()
		victim.evict()
		l.remove(victim)
		l.evicted++
		evicts = true
	}
	p.entry = l.places.PushBack(p)
	return p, evicts
}

// largest is the oldest place of a network that holds most of them. The lobby is full. Small shares are equal: members that
// are behind one address do not lose theirs to somebody with many networks.
func (l *Lobby) largest() *Place {
	most, victim := 0, (*Place)(nil)
	for e := l.places.Front(); e != nil; e = e.Next() {
		if p := e.Value.(*Place); max(smallShare, l.shares[p.network]) > most {
			most, victim = max(smallShare, l.shares[p.network]), p
		}
	}
	return victim
}

func (l *Lobby) remove(p *Place) {
	l.places.Remove(p.entry)
	p.entry = nil
	if l.shares[p.network]--; l.shares[p.network] == 0 {
		delete(l.shares, p.network)
	}
}

// Leave gives the place back and says whether it was taken away before.
func (l *Lobby) Leave(p *Place) (evicted bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if p.entry == nil {
		l.evicted--
		return true
	}
	l.remove(p)
	return false
}

// Close ends all that are there, and lets nobody in any more.
func (l *Lobby) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	for e := l.places.Front(); e != nil; e = e.Next() {
		e.Value.(*Place).evict()
	}
}

// Len is how many strangers have a place.
func (l *Lobby) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.places.Len()
}

// networkOf is the network of an address; all that are no IP addresses are of one.
func networkOf(address net.Addr) netip.Prefix {
	tcp, ok := address.(*net.TCPAddr)
	if !ok {
		return netip.Prefix{}
	}
	ip, bits := tcp.AddrPort().Addr().Unmap().WithZone(""), 56
	if ip.Is4() {
		bits = 24
	}
	network, _ := ip.Prefix(bits) // the zero one for no address
	return network
}
