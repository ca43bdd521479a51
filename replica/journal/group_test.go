// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestGroup: what a leader was told is durable is with the next one, and a lost disk comes back.
func TestGroup(t *testing.T) {
	t.Parallel()
	m := newMembers(t)
	m.voters(t, m.leader(t), 3)
	first := m.tell(t, 'a', "one")

	began := time.Now()
	m.stop(t, first)
	m.leader(t)
	t.Logf("another one leads after %s", time.Since(began))
	second := m.tell(t, 'a', "two")

	// The first one comes back, and then another one without its disk.
	m.start(t, first)
	m.has(t, 'a', "two")
	third := 3 - first - second
	m.loseDisk(t, third)
	m.start(t, third)
	m.has(t, 'a', "two")
	m.voters(t, second, 3)
	if group := m.now.Group; m.up[third].journal.Status().Group != group || m.up[first].journal.Status().Group != group {
		t.Error("there are two groups")
	}
}

// TestRecover: two of three are lost with their disks, and the third holds all; then one of them comes back with what it
// had, and it counts for nothing.
func TestRecover(t *testing.T) {
	t.Parallel()
	m := newMembers(t)
	m.voters(t, m.leader(t), 3)
	first := m.tell(t, 'a', "one")
	survivor, late, lost := first, (first+1)%3, (first+2)%3
	m.loseDisk(t, lost)
	m.stop(t, late)
	m.start(t, lost)
	await(t, "the survivor leads no more", func() bool { return !m.up[survivor].journal.Status().Leads })
	m.up[survivor].End()

	before, err := m.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	now := Record{Group: newServerID(), Founder: m.up[survivor].journal.Status().ServerID}
	if err := m.Replace(t.Context(), before, now); err != nil {
		t.Fatal(err)
	}
	if at := m.leader(t); at != survivor {
		t.Fatalf("%d leads, and not the survivor", at)
	}
	m.has(t, 'a', "one")
	m.tell(t, 'a', "two")
	m.voters(t, survivor, 2)
	m.start(t, late)
	m.voters(t, survivor, 3)
	m.has(t, 'a', "two")
	aside := func(i int) int {
		found, _ := filepath.Glob(filepath.Join(m.dirs[i], asidePrefix+"*"))
		return len(found)
	}
	if aside(survivor) != 0 || aside(late) != 1 || aside(lost) != 0 {
		t.Errorf("set aside: %d, %d and %d", aside(survivor), aside(late), aside(lost))
	}
}

// TestAllLost: three that have lost everything begin anew, once all of them say so.
func TestAllLost(t *testing.T) {
	t.Parallel()
	m := newMembers(t)
	m.voters(t, m.leader(t), 3)
	before := m.now
	for i := range m.up {
		m.loseDisk(t, i)
	}
	m.start(t, 0)
	m.start(t, 1)
	for range 4 { // two of them do not: the third may have everything
		if err := m.up[0].journal.requestJoin(t.Context(), m.group(0), true); err == nil || errors.Is(err, ErrOtherGroup) {
			t.Fatalf("two of three begin anew: %v", err)
		}
	}
	m.start(t, 2)
	m.voters(t, m.leader(t), 3)
	if m.now == before {
		t.Error("the record is the old one")
	}
}

// TestAloneThenThree: what one agent held is what the three hold that it becomes.
func TestAloneThenThree(t *testing.T) {
	t.Parallel()
	m := &members{}
	m.place(t)
	alone := openDir(t, m.dirs[1])
	alone.Append([]byte("aone"))
	alone.await(t, 1)
	alone.close(t)
	m.start(t, 1)
	m.start(t, 0)
	m.start(t, 2)
	m.voters(t, m.leader(t), 3)
	m.has(t, 'a', "one")
}

// TestImpostor: an agent that lost its disk does not vote in the name of the server that it was, and a server of one
// group is none of another.
func TestImpostor(t *testing.T) {
	t.Parallel()
	m := newMembers(t)
	leader := m.leader(t)
	m.voters(t, leader, 3)
	at := m.up[leader].journal
	for _, whom := range []struct{ group, id string }{
		{at.directory.owner.Group, "another"},
		{"another", at.directory.owner.ServerID},
		{at.directory.owner.Group + "/" + at.directory.owner.ServerID + "\n", ""},
		{strings.Repeat("x", 1<<20), ""},
	} {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", m.addresses[leader])
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(conn, string(forRaft)+(&mux{group: whom.group}).preamble(whom.id))
		_ = conn.SetReadDeadline(time.Now().Add(within))
		if n, err := conn.Read(make([]byte, 1)); n > 0 || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("a connection for %.20q of %.20q is served", whom.id, whom.group)
		}
		_ = conn.Close()
	}
	for _, junk := range []string{"", "\x02", "\x02{}", "\x02{\"address\":\"a:1\",\"serverID\":\"x@y\"}", "\x02" + strings.Repeat("[", 1<<16), "\x00", "\x16\x03\x01"} {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", m.addresses[leader])
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(conn, junk)
		_ = conn.(*net.TCPConn).CloseWrite() // it may be closed already
		_ = conn.SetReadDeadline(time.Now().Add(within))
		if n, err := conn.Read(make([]byte, 1)); n > 0 || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%.20q is answered", junk)
		}
		_ = conn.Close()
	}
	await(t, "one leads, still or again", func() bool { return at.Status().Leader != "" })
	if n := len(at.Status().Servers); n != 3 {
		t.Errorf("%d servers are left", n)
	}
}

// TestNotAtItsAddress: who asks to be taken in at an address where somebody else is, or nobody, is not.
func TestNotAtItsAddress(t *testing.T) {
	t.Parallel()
	m := newMembers(t)
	leader := m.leader(t)
	m.voters(t, leader, 3)
	at := m.up[leader].journal
	for _, address := range []string{m.addresses[(leader+1)%3], "127.0.0.1:1"} {
		if got := at.admit(request{Group: at.directory.owner.Group, ServerID: "another", Address: address}); got.Taken {
			t.Errorf("it is taken in at %s", address)
		}
	}
	if n := len(at.Status().Servers); n != 3 {
		t.Errorf("%d servers are left", n)
	}
}

func TestMayBegin(t *testing.T) {
	blank := func(ids ...string) (out []answer) {
		for _, id := range ids {
			out = append(out, answer{Blank: true, ServerID: id})
		}
		return out
	}
	for _, c := range []struct {
		what    string
		record  Record
		answers []answer
		may     bool
	}{
		{"nothing was, and nobody answers", Record{}, nil, false},
		{"nothing was, and most are there", Record{}, blank("b"), true},
		{"one is in a group", Record{}, []answer{{ServerID: "b"}}, false},
		{"another one is to begin", Record{Group: "g", Founder: "b"}, blank("b", "c"), false},
		{"this one is to begin", Record{Group: "g", Founder: "a"}, blank("b"), true},
		{"one does not answer that may have all", Record{Group: "g", Founder: "x"}, blank("b"), false},
		{"nobody has anything", Record{Group: "g", Founder: "x"}, blank("b", "c"), true},
	} {
		if got := c.record.mayBegin("a", c.answers, 2); got != c.may {
			t.Errorf("%s: %t", c.what, got)
		}
	}
}
