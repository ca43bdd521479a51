// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/roster-mesh/roster/mesh/lobby"
)

func serveNothing(context.Context, Caller, net.Conn) {}

// serveName writes who calls, and then what it reads, until the other end has said all or ctx ends.
func serveName(_ context.Context, from Caller, conn net.Conn) {
	_, _ = io.WriteString(conn, from.ClusterID+"\n")
	_, _ = io.Copy(conn, conn)
}

// echo sends a word over a connection of serveName and returns all that came.
func echo(conn net.Conn, from, word string) error {
	if err := conn.SetDeadline(time.Now().Add(deadline)); err != nil {
		return err
	}
	if _, err := io.WriteString(conn, word); err != nil {
		return err
	}
	got := make([]byte, len(from)+1+len(word))
	if _, err := io.ReadFull(conn, got); err != nil {
		return err
	}
	if string(got) != from+"\n"+word {
		return errors.New("got " + string(got))
	}
	return nil
}

// TestProtocol: members speak a protocol that the mesh does not know, as long as their pins last.
func TestProtocol(t *testing.T) {
	g := newGroup(t, nil)
	defer g.end()
	speaks := func(o *Options) { o.Protocols = map[string]Handler{"echo/1": {Serve: serveName}} }
	a, b := g.add("a", speaks), g.add("b", speaks)
	g.swap(a, b)
	var conns []net.Conn
	for range maxPeerConns {
		conn, err := a.Dial(t.Context(), "b", "echo/1")
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		conns = append(conns, conn)
	}
	if err := echo(conns[0], "a", "hello"); err != nil {
		t.Error(err)
	}
	if _, err := a.Dial(t.Context(), "b", "echo/1"); !errors.Is(err, errBusyPeer) {
		t.Errorf("one more: %v", err)
	}
	await(t, deadline, "the mesh has its own connections", formed(a, b))
	if err := conns[1].Close(); err != nil {
		t.Error(err)
	}
	await(t, deadline, "the place is free again", func() bool {
		conn, err := a.Dial(t.Context(), "b", "echo/1")
		if err != nil {
			return false
		}
		defer conn.Close()
		return echo(conn, "a", "again") == nil
	})
	if _, err := a.Dial(t.Context(), "nobody", "echo/1"); !errors.Is(err, ErrUnpinned) {
		t.Errorf("to a stranger: %v", err)
	}
	if _, err := a.Dial(t.Context(), "b", protocolRPC); err == nil || !strings.Contains(err.Error(), protocolRPC) {
		t.Errorf("a protocol of the mesh itself: %v", err)
	}
	a.trust.Forget("b")
	if err := closes(conns[0]); err != nil && !errors.Is(err, net.ErrClosed) {
		t.Errorf("after the pin: %v", err)
	}
	await(t, deadline, "b's end is served", func() bool { return b.port.conns.count("a", "echo/1") == 0 })
	if _, err := a.Dial(t.Context(), "b", "echo/1"); !errors.Is(err, ErrUnpinned) {
		t.Errorf("without a pin: %v", err)
	}
}

// count is how many connections of a protocol a peer has.
func (c *connections) count(peer, protocol string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.counts[budgetOf(peer, protocol)]
}

// TestProtocolOfTheUnpinned: who is a stranger is served where a protocol says so, with the key that it has, as one of
// the strangers, and nowhere else.
func TestProtocolOfTheUnpinned(t *testing.T) {
	bubble(t, time.Millisecond, func(t *testing.T, g *group) {
		callers := make(chan Caller, 1)
		ended := make(chan time.Time, lobby.Size+1)
		m := g.add("m", func(o *Options) {
			o.Protocols = map[string]Handler{
				"members/1": {Serve: serveName},
				"open/1": {Unpinned: true, Serve: func(ctx context.Context, from Caller, conn net.Conn) {
					select {
					case callers <- from:
					default:
					}
					serveName(ctx, from, conn)
					ended <- time.Now()
				}},
			}
		})
		i := newIntruder(t)
		dial := func(protocol string) (net.Conn, error) { return i.dial(m, i.config(protocol)) }
		first, err := dial("open/1")
		if err != nil {
			t.Fatal(err)
		}
		if err := echo(first, "", "let me in"); err != nil {
			t.Fatal(err)
		}
		if from := <-callers; from.ClusterID != "" || !from.Key.Equal(i.identity.PublicKey()) {
			t.Errorf("the caller is %+v", from)
		}
		for _, protocol := range []string{"members/1", protocolPacket, protocolRPC} {
			before := m.dropped(dropUnpinned)
			if conn, err := dial(protocol); err == nil {
				if err := closes(conn); err != nil {
					t.Errorf("%s: %v", protocol, err)
				}
			}
			await(t, deadline, "it is refused "+protocol, func() bool { return m.dropped(dropUnpinned) == before+1 })
		}
		for range lobby.Size {
			if _, err := dial("open/1"); err != nil {
				t.Fatal(err)
			}
		}
		start := time.Now()
		if at := <-ended; at.Sub(start) > time.Second {
			t.Errorf("one stranger too many: the oldest goes after %v", at.Sub(start))
		}
		time.Sleep(unpinnedTimeout + time.Second)
		if len(ended) != lobby.Size {
			t.Errorf("%d of %d ended in time", len(ended), lobby.Size)
		}
		for len(callers) > 0 {
			<-callers
		}
		m.trust.Remove("made-up", i.identity.PublicKey(), nil, false) // as any member can say
		if _, err := dial("open/1"); err != nil {
			t.Fatal(err)
		}
		select {
		case from := <-callers:
			if from.ClusterID != "" || !from.Removed {
				t.Errorf("with a removed key the caller is %+v", from)
			}
		case <-time.After(time.Second):
			t.Error("who has a removed key is not served")
		}
		before := m.dropped(dropRemoved)
		if conn, err := dial("members/1"); err == nil {
			if err := closes(conn); err != nil {
				t.Error(err)
			}
		}
		await(t, deadline, "a removed key stays out of the others", func() bool { return m.dropped(dropRemoved) == before+1 })
	})
}

// TestDialOfWhatAMemberLacks: it is told by its error, and not taken for unreachable.
func TestDialOfWhatAMemberLacks(t *testing.T) {
	bubble(t, time.Millisecond, func(t *testing.T, g *group) {
		var out syncBuffer
		a := g.add("a", func(o *Options) {
			o.Protocols = map[string]Handler{"new/1": {Serve: serveNothing}}
			o.Log = textLogger(&out)
		})
		b := g.add("b")
		g.swap(a, b)
		await(t, time.Minute, "they meet", formed(a, b))
		if _, err := a.Dial(t.Context(), "b", "new/1"); !errors.Is(err, ErrProtocol) || !strings.Contains(err.Error(), "new/1") {
			t.Errorf("got %v", err)
		}
		if strings.Contains(out.String(), "cannot be reached") {
			t.Errorf("it logs\n%s", out.String())
		}
		g.network.Isolate("b")
		if _, err := a.Dial(t.Context(), "b", "new/1"); err == nil || errors.Is(err, ErrProtocol) {
			t.Errorf("of one that is away: %v", err)
		}
	})
}

// TestDialAfterTheEnd: it says that the mesh has ended.
func TestDialAfterTheEnd(t *testing.T) {
	bubble(t, time.Millisecond, func(t *testing.T, g *group) {
		speaks := func(o *Options) { o.Protocols = map[string]Handler{"echo/1": {Serve: serveName}} }
		a, b := g.add("a", speaks), g.add("b", speaks)
		g.swap(a, b)
		await(t, time.Minute, "they meet", formed(a, b))
		g.kill(a)
		if _, err := a.Dial(t.Context(), "b", "echo/1"); !errors.Is(err, net.ErrClosed) {
			t.Errorf("got %v", err)
		}
	})
}

// TestProtocolsAreCopied: what their owner does with the map then changes nothing.
func TestProtocolsAreCopied(t *testing.T) {
	bubble(t, time.Millisecond, func(t *testing.T, g *group) {
		protocols := map[string]Handler{"echo/1": {Serve: serveName}}
		a := g.add("a", func(o *Options) { o.Protocols = protocols })
		delete(protocols, "echo/1")
		if _, err := a.Dial(t.Context(), "nobody", "echo/1"); !errors.Is(err, ErrUnpinned) {
			t.Errorf("got %v", err)
		}
	})
}
