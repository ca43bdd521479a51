// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"bytes"
	"errors"
	"io"
	"math"
	"net"
	"testing"
	"time"

	"github.com/hashicorp/go-msgpack/v2/codec"
	"github.com/hashicorp/memberlist"
)

func encoded(t testing.TB, kind byte, v any) []byte {
	t.Helper()
	b := bytes.NewBuffer([]byte{kind})
	if err := codec.NewEncoder(b, &codec.MsgpackHandle{}).Encode(v); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestForgedIncarnations(t *testing.T) {
	type claim struct {
		Incarnation uint32
		Node, From  string
	}
	for _, c := range []struct {
		kind byte
		node string
		n    uint32
		want error
	}{
		{mlSuspect, "b", 7, nil},
		{mlSuspect, "a", maxAccused, nil},
		{mlSuspect, "b", maxAccused + 1, errForged},
		{mlDead, "b", math.MaxUint32, errForged},
		{mlAlive, "b", maxIncarnation, nil}, // the answer to a forger that goes to the limit
		{mlAlive, "b", maxIncarnation + 1, errForged},
		{mlAlive, "a", maxIncarnation, errForged}, // answering would exceed what others believe
	} {
		if err := checkClaim("a", encoded(t, c.kind, claim{c.n, c.node, "x"})); !errors.Is(err, c.want) {
			t.Errorf("type %d of %s at %d: %v", c.kind, c.node, c.n, err)
		}
	}
	if err := checkClaim("a", []byte{mlDead, 0xc1, 0xff}); !errors.Is(err, errMalformed) {
		t.Errorf("garbage: %v", err)
	}
}

// TestForgedPushPull: what is not believable is passed on as the lowest
// incarnation; all else stays as it was.
func TestForgedPushPull(t *testing.T) {
	states := []pushNodeState{
		{Name: "b", Addr: memberAddr("b"), Port: memberPort, Incarnation: 3, Vsn: []uint8{1, 5, 2, 0, 0, 0}},
		{Name: "c", Incarnation: math.MaxUint32, State: int(memberlist.StateDead)},
		{Name: "a", Incarnation: math.MaxUint32},
		{Name: "d", Incarnation: 9, State: int(memberlist.StateLeft)},
	}
	const user = "user state"
	data := pushPull(t, pushPullHeader{Nodes: len(states), UserStateLen: len(user)})
	for _, s := range states {
		data = append(data, encoded(t, 0, s)[1:]...)
	}
	data = append(data, user...)
	ours, theirs := net.Pipe()
	go func() { _, _ = theirs.Write(data); _ = theirs.Close() }()
	forged := 0
	s := guardStream("a", ours, func(err error) {
		if !errors.Is(err, errForged) {
			t.Error(err)
		}
		forged++
	}, func() {})
	got, err := io.ReadAll(s)
	if err != nil || forged != 2 {
		t.Fatalf("%v, %d forged", err, forged)
	}
	r := bytes.NewReader(got[1:])
	decoder := codec.NewDecoder(r, &codec.MsgpackHandle{})
	var header pushPullHeader
	if err := decoder.Decode(&header); err != nil || header.Nodes != len(states) {
		t.Fatalf("%+v, %v", header, err)
	}
	for i, want := range []uint32{3, 0, 0, 9} {
		var n pushNodeState
		if err := decoder.Decode(&n); err != nil || n.Name != states[i].Name || n.Incarnation != want || n.State != states[i].State {
			t.Errorf("%+v, %v", n, err)
		}
	}
	if rest, _ := io.ReadAll(r); string(rest) != user {
		t.Errorf("user state %q", rest)
	}
}

// TestForgerCannotLockOut: a pinned member says the worst of another one.
func TestForgerCannotLockOut(t *testing.T) {
	bubble(t, 10*time.Millisecond, func(t *testing.T, g *group) {
		a, b, c := g.add("a"), g.add("b"), g.add("c")
		g.swap(a, b)
		g.swap(b, c)
		await(t, time.Minute, "group forms", formed(a, b, c))
		for _, n := range []uint32{math.MaxUint32, math.MaxUint32 - 1, maxIncarnation, maxAccused} {
			lie := encoded(t, mlSuspect, struct {
				Incarnation uint32
				Node, From  string
			}{n, "a", "c"})
			for _, to := range []string{"a", "b"} {
				c.transport.packets.send(to, framePacket, lie)
			}
			time.Sleep(time.Minute)
			if !formed(a, b, c)() {
				t.Errorf("after a lie at %d: b sees %v", n, b.Members())
			}
		}
	})
}

// TestRemovedPinEndsConnections: whoever is not pinned any more is not heard
// on the connection that it still has.
func TestRemovedPinEndsConnections(t *testing.T) {
	g := newGroup(t, nil)
	defer g.end()
	m, i := g.add("a"), newIntruder(t)
	if err := m.trust.Pin("intruder", i.identity.PublicKey()); err != nil {
		t.Fatal(err)
	}
	conn, err := i.dial(m, i.config(protocolPacket))
	if err != nil {
		t.Fatal(err)
	}
	l := m.transport.packets.queue("intruder")
	await(t, deadline, "it is connected", func() bool { l.mu.Lock(); defer l.mu.Unlock(); return l.current != nil })
	m.trust.Forget("intruder")
	_, _ = conn.Write(appendFrame(nil, frameMessage, []byte("["))) // fails if the connection ended already
	if err := closes(conn); err != nil {
		t.Error(err)
	}
	if m.state.rejected() != 0 {
		t.Error("the frame was taken")
	}
	if _, _, err := m.server.admitCall(peerContext(Caller{ClusterID: "intruder", Key: i.identity.PublicKey()}), false); err == nil {
		t.Error("a call was taken")
	}
}

func FuzzStreamStates(f *testing.F) {
	header := pushPull(f, pushPullHeader{Nodes: 2})
	f.Add(append(header, encoded(f, 0, pushNodeState{Name: "b", Incarnation: math.MaxUint32})[1:]...))
	f.Add(append(header, 0xdf, 0xff, 0xff, 0xff, 0xff))
	f.Fuzz(func(t *testing.T, data []byte) {
		q := &queryConn{request: bytes.NewReader(data), closed: make(chan struct{})}
		got, _ := io.ReadAll(guardStream("a", q, func(error) {}, func() {}))
		if len(got) > 2*len(data)+maxMembership*(1+len(data)/8) {
			t.Fatalf("%d bytes became %d", len(data), len(got))
		}
	})
}
