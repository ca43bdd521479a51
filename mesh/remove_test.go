// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"context"
	"crypto/ed25519"
	"errors"
	"iter"
	"maps"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/roster-mesh/roster/mesh/pace"
	"github.com/roster-mesh/roster/mesh/trust"
)

// TestToldByTheRemoved: a call that was admitted before its peer was removed brings nothing afterwards.
func TestToldByTheRemoved(t *testing.T) {
	keys := testKeys(2)
	m := &Mesh{options: Options{Trust: trust.New(trust.Pin{ClusterID: "self", PublicKey: keys[0]}, trust.Options{})}}
	if err := m.options.Trust.Pin("a", keys[1]); err != nil {
		t.Fatal(err)
	}
	m.options.Trust.Remove("a", keys[1], nil, false)
	if err := m.Merge("a", []byte("anything")); !errors.Is(err, ErrUnpinned) {
		t.Fatal(err)
	}
}

// TestRemovedMember: within moments every connection is closed, nothing is heard or sent any more, and the one who
// was removed is told why, and no more than that.
func TestRemovedMember(t *testing.T) {
	g := newGroup(t, nil)
	defer g.end()
	var mu sync.Mutex
	var notice []byte
	tells := func(o *Options) {
		o.RemovalNotice = func(ed25519.PublicKey) []byte { mu.Lock(); defer mu.Unlock(); return notice }
	}
	a, b, c := g.add("a", tells), g.add("b"), g.add("c", tells)
	g.swap(a, b)
	g.swap(b, c)
	await(t, deadline, "group forms", formed(a, b, c))
	await(t, deadline, "states converge", equal(a, b, c))
	if _, err := b.Call(context.Background(), "a", "Greet", nil); err != nil {
		t.Fatal(err)
	}

	for _, p := range []*pace.Throttle{a.throttle, a.server.pulls} {
		p.Wait("b", 1)
	}
	a.broadcaster.relay.Allow("b", 1, false)
	a.broadcaster.announced("b", summary{})
	if !slices.Contains(a.remembered(), "b") {
		t.Fatal("nothing was kept of b")
	}
	held := b.Member("a").State
	began := time.Now()
	for _, m := range []*member{a, c} {
		m.trust.Remove("b", b.state.identity.PublicKey(), nil, false)
	}
	mu.Lock()
	notice = a.state.publish([]byte("b was removed"))
	mu.Unlock()
	await(t, deadline, "no connection of b is left", func() bool {
		for _, m := range []*member{a, c} {
			m.port.conns.mu.Lock()
			n := m.port.conns.counts[budget{"b", ""}]
			m.port.conns.mu.Unlock()
			m.transport.packets.mu.Lock()
			l := m.transport.packets.queues["b"]
			m.transport.packets.mu.Unlock()
			if n > 0 || l != nil {
				return false
			}
		}
		return true
	})
	await(t, deadline, "nothing is kept of b", func() bool { return !slices.Contains(a.remembered(), "b") })
	t.Logf("connections ended after %v; b saw a %v", time.Since(began), held)
	await(t, deadline, "b is told why", func() bool {
		b.state.mu.Lock()
		defer b.state.mu.Unlock()
		return b.state.upTo["a"] == 2
	})
	if _, err := b.Call(context.Background(), "a", "Greet", nil); err == nil {
		t.Error("a removed member is answered")
	}
	await(t, deadline, "it is no member", func() bool { return a.Member("b").State == Unknown })
	before := c.state.rejected()
	b.Broadcast(b.state.publish([]byte("lies")))
	a.Broadcast(a.state.publish([]byte("go on")))
	await(t, deadline, "a and c go on", equal(a, c))
	a.state.mu.Lock()
	defer a.state.mu.Unlock()
	if a.state.upTo["b"] != 1 || c.state.rejected() != before {
		t.Error("what it says is still heard")
	}
}

// remembered lists whom something is kept of.
func (m *member) remembered() (ids []string) {
	add := func(mu *sync.Mutex, keys iter.Seq[string]) {
		mu.Lock()
		defer mu.Unlock()
		ids = slices.AppendSeq(ids, keys)
	}
	ids = slices.Concat(m.throttle.Peers(), m.server.pulls.Peers(), m.broadcaster.relay.Origins())
	add(&m.server.mu, maps.Keys(m.server.limits))
	add(&m.pulls.mu, maps.Keys(m.pulls.peers))
	add(&m.joins.mu, maps.Keys(m.joins.members))
	add(&m.broadcaster.mu, maps.Keys(m.broadcaster.choosers))
	add(&m.Mesh.mu, maps.Keys(m.logged))
	add(&m.Mesh.mu, maps.Keys(m.removedBy))
	return ids
}

// TestMergeInACall: the call returns once the member has merged the message, and what that refuses is an error.
func TestMergeInACall(t *testing.T) {
	g := newGroup(t, nil)
	defer g.end()
	a, b := g.add("a"), g.add("b")
	g.swap(a, b)
	await(t, deadline, "group forms", formed(a, b))
	await(t, deadline, "states converge", equal(a, b))
	if _, err := a.Call(context.Background(), "b", "Tell", a.state.publish([]byte("news"))); err != nil {
		t.Fatal(err)
	}
	b.state.mu.Lock()
	got := b.state.upTo["a"]
	b.state.mu.Unlock()
	if got != 2 {
		t.Errorf("b holds a up to %d", got)
	}
	if _, err := a.Call(context.Background(), "b", "Tell", []byte("{")); err == nil {
		t.Error("nonsense is taken")
	}
	if _, err := a.Call(context.Background(), "stranger", "Tell", nil); !errors.Is(err, ErrUnpinned) {
		t.Error(err)
	}
}

// TestARemovedKeyIsNotItsSuccessor: a cluster that comes back with another key at once lets the old one in nowhere.
func TestARemovedKeyIsNotItsSuccessor(t *testing.T) {
	bubble(t, time.Millisecond, func(t *testing.T, g *group) {
		m := g.add("m")
		i := newIntruder(t)
		old := Caller{ClusterID: "intruder", Key: i.identity.PublicKey()}
		if err := m.trust.Pin(old.ClusterID, old.Key); err != nil {
			t.Fatal(err)
		}
		c := newClients(func(context.Context, string, string) (net.Conn, error) { return i.dial(m, i.config(protocolRPC)) })
		defer c.close()
		greet := func() error {
			_, err := c.call(t.Context(), "m", "Greet", Method{MaxAnswer: methodBytes, Timeout: methodTimeout}, nil)
			return err
		}
		if err := greet(); err != nil {
			t.Fatal(err)
		}
		m.trust.Remove(old.ClusterID, old.Key, nil, false)
		if err := m.trust.Pin(old.ClusterID, newIntruder(t).identity.PublicKey()); err != nil {
			t.Fatal(err)
		}
		if err := greet(); status.Code(err) != codes.Unauthenticated && status.Code(err) != codes.Unavailable {
			t.Errorf("within the grace of its connection: %v", err)
		}
		if old.pinnedIn(m.trust) {
			t.Error("the old key counts as the new one")
		}
	})
}
