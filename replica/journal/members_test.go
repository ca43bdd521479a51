// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"bytes"
	"fmt"
	"net"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
)

// TestDismissed: an agent that is taken out of the peers, and silent, is let go of; one that is only silent is not; and
// one that comes back is taken in again.
func TestDismissed(t *testing.T) {
	t.Parallel()
	m := newMembers(t)
	m.voters(t, m.leader(t), 3)
	m.tell(t, 'a', "one")
	leads := m.leader(t)
	out := (leads + 1) % 3
	m.stop(t, out)
	await(t, "the leader finds one silent", func() bool {
		leads = m.leader(t)
		return m.up[leads].journal.Status().Unreachable
	})
	at := m.up[leads].journal
	at.removeGone(m.group(leads), 0)
	if n := len(at.Status().Servers); n != 3 {
		t.Fatalf("%d are left of three, of whom one is away", n)
	}
	without := []string{m.addresses[leads], m.addresses[3-out-leads]}
	at.removeGone(&Group{Address: "elsewhere:1", Peers: without}, 0)
	at.removeGone(&Group{Address: m.addresses[leads], Peers: without}, time.Hour)
	if n := len(at.Status().Servers); n != 3 {
		t.Fatalf("%d are left of three, of whom one is away for a moment", n)
	}
	await(t, "two are left", func() bool {
		leads = m.leader(t)
		m.up[leads].journal.removeGone(&Group{Address: m.addresses[leads], Peers: without}, 0)
		return len(m.up[leads].journal.Status().Servers) == 2
	})
	m.tell(t, 'a', "two")
	m.start(t, out)
	m.has(t, 'a', "two")
	m.voters(t, out, 3)
}

// TestClosedWhileItChanges: what was agreed upon and is not done when raft ends is never answered, and nobody waits for it.
func TestClosedWhileItChanges(t *testing.T) {
	for range 8 { // raft takes what is to be done or its own end, by chance
		o := openDir(t, t.TempDir())
		o.table.mu.Lock()
		o.Append([]byte("aone"))
		await(t, "one is being done", func() bool {
			idle := o.journal.fsm.machineMu.TryLock()
			if idle {
				o.journal.fsm.machineMu.Unlock()
			}
			return !idle
		})
		changed, closed := make(chan error, 1), make(chan error, 1)
		go func() { changed <- o.journal.add("b", "b@127.0.0.1:1", 1) }()
		await(t, "a server is being taken in", func() bool { return len(o.journal.servers()) == 2 })
		go func() { closed <- o.journal.Close() }()
		await(t, "raft is told to end", func() bool { return o.journal.raft.State() == raft.Shutdown })
		o.table.mu.Unlock()
		for what, got := range map[string]chan error{"the change": changed, "the end": closed} {
			select {
			case err := <-got:
				if err != nil && what == "the end" {
					t.Error(err)
				}
			case <-time.After(within):
				t.Fatalf("%s never comes", what)
			}
		}
		o.End()
	}
}

// TestSilences: a server is silent from one failure to the next, and no longer.
func TestSilences(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s outages
		fails := func() { s.observe(&raft.Observation{Data: raft.FailedHeartbeatObservation{PeerID: "a"}}) }
		check := func(what string, anybody, long bool) {
			t.Helper()
			if s.any() != anybody || s.longerThan("a", time.Minute) != long || s.longerThan("b", 0) {
				t.Errorf("%s: somebody is silent: %t, for long: %t", what, s.any(), s.longerThan("a", time.Minute))
			}
		}
		check("at first", false, false)
		for range 6 {
			fails()
			check("for less than a minute", true, false)
			time.Sleep(outageMemory - 5*time.Second)
		}
		fails()
		check("for a minute", true, true)
		s.observe(&raft.Observation{Data: raft.ResumedHeartbeatObservation{PeerID: "a"}})
		check("again", false, false)
		fails()
		time.Sleep(time.Hour) // another one leads
		check("when nobody has looked", false, false)
		fails()
		check("after an hour", true, false)
	})
}

// stuck is an agent that is there, and takes nothing in.
func stuck(t *testing.T, m *members, i int) request {
	t.Helper()
	listener := m.listen(t, i)
	o := owner{ServerID: "stuck", Group: m.now.Group}
	g := m.group(i)
	g.Stream = wire{listener}
	x := newMux(g, o, func(request) answer { return answer{Blank: true, ServerID: o.ServerID} })
	x.wg.Go(x.serve)
	t.Cleanup(func() { _ = x.end() })
	return x.request(false)
}

// TestSurvivorIsNotHeldUp: who is alone goes on, though the first that comes to it never gets as far.
func TestSurvivorIsNotHeldUp(t *testing.T) {
	t.Parallel()
	m := &members{}
	m.place(t)
	alone := openDir(t, m.dirs[0])
	alone.Append([]byte("aone"))
	alone.await(t, 1)
	alone.close(t)
	m.start(t, 0)
	m.leader(t)
	if got := m.up[0].journal.admit(stuck(t, m, 1)); !got.Taken {
		t.Fatal("it is not taken in")
	}
	await(t, "it is silent", func() bool { return m.up[0].journal.Status().Unreachable })
	m.tell(t, 'a', "two")
	if s := m.up[0].journal.Status(); len(s.Servers) != 1 {
		t.Errorf("%v vote", s.Servers)
	}
	m.start(t, 2) // the second one does
	m.voters(t, 0, 2)
	m.tell(t, 'a', "three")
}

// TestTooManyServers: a group does not grow without end.
func TestTooManyServers(t *testing.T) {
	m := &members{}
	m.place(t)
	openDir(t, m.dirs[0]).close(t)
	m.start(t, 0)
	m.leader(t)
	at := m.up[0].journal
	r := stuck(t, m, 1)
	for i := range MaxServers - 1 {
		id := raft.ServerID([]byte{'a' + byte(i)})
		if err := at.raft.AddNonvoter(id, address(string(id), "127.0.0.1:1"), 0, 0).Error(); err != nil {
			t.Fatal(err)
		}
	}
	if at.admit(r).Taken || len(at.servers()) != MaxServers {
		t.Errorf("%d servers", len(at.servers()))
	}
}

// narrow is a wire on which a connection from outside brings a megabyte and no more, until it is widened.
type narrow struct {
	wire

	wide chan struct{}
	end  chan struct{}
	once sync.Once
}

func (n *narrow) Accept() (net.Conn, error) {
	c, err := n.wire.Accept()
	if err != nil {
		return nil, err
	}
	return &narrowConn{Conn: c, of: n, left: 1 << 20}, nil
}

func (n *narrow) Close() error {
	n.once.Do(func() { close(n.end) })
	return n.wire.Close()
}

type narrowConn struct {
	net.Conn

	of   *narrow
	left int
}

func (c *narrowConn) Read(b []byte) (int, error) {
	if c.left <= 0 {
		select {
		case <-c.of.wide:
		case <-c.of.end:
			return 0, net.ErrClosed
		}
	}
	n, err := c.Conn.Read(b)
	c.left -= n
	return n, err
}

// TestBehind: an agent that lost its disk knows a leader and is in the group long before it has what the group has. Until
// then it says so: if the next one lost its disk, the leader alone would have what was acknowledged.
func TestBehind(t *testing.T) {
	t.Parallel()
	m := newMembers(t)
	m.voters(t, m.leader(t), 3)
	m.tell(t, 'a', "one")
	leads := m.leader(t)
	late := (leads + 1) % 3
	m.loseDisk(t, late)
	for i := range 2 * raft.DefaultConfig().MaxAppendEntries { // what comes first has the configuration, and is small
		leads = m.append(t, leads, fmt.Appendf(nil, "c%d", i))
	}
	for range 40 { // too little for a snapshot
		leads = m.append(t, leads, append([]byte{'b'}, bytes.Repeat([]byte("x"), 80<<10)...))
	}
	told := m.up[m.tell(t, 'a', "two")].journal.raft.CommitIndex()

	slow := &narrow{wide: make(chan struct{}), end: make(chan struct{})}
	m.startOn(t, late, func(w wire) Stream { slow.wire = w; return slow })
	at := m.up[late]
	await(t, "it knows a leader and is in the group", func() bool {
		m.heed(t)
		return at.journal.Status().Leader != "" && len(at.journal.Status().Servers) > 0
	})
	for range 3 {
		if s := at.journal.Status(); !s.Behind || at.table.get('a') == "two" {
			t.Fatalf("it is said to have everything: %+v, and has %q", s, at.table.get('a'))
		}
		time.Sleep(maintainInterval)
	}
	close(slow.wide)
	await(t, "it has caught up", func() bool { return !at.journal.Status().Behind })
	if _, got := at.journal.LogEnd(); got < told {
		t.Errorf("it is said to have everything, and its log ends at %d, not %d", got, told)
	}
	m.has(t, 'a', "two")
	m.voters(t, late, 3)
}

// TestReplacedOneByOne: pods that are replaced with their volumes, each when the one before is ready, lose nothing.
func TestReplacedOneByOne(t *testing.T) {
	t.Parallel()
	m := newMembers(t)
	m.voters(t, m.leader(t), 3)
	for i := range 3 {
		at := m.up[m.leader(t)]
		for range 200 {
			at.Append(append([]byte{'x'}, bytes.Repeat([]byte("x"), 8<<10)...))
		}
		m.tell(t, 'a'+byte(i), "told")
		m.loseDisk(t, i)
		m.start(t, i)
		m.tell(t, 'd'+byte(i), "told meanwhile")
		await(t, "the new one has caught up", func() bool {
			m.heed(t)
			return !m.up[i].journal.Status().Behind
		})
	}
	for i := range byte(3) {
		m.has(t, 'a'+i, "told")
		m.has(t, 'd'+i, "told meanwhile")
	}
	m.voters(t, m.leader(t), 3)
}

func TestProgress(t *testing.T) {
	start := time.Now()
	at := func(s int) time.Time { return start.Add(time.Duration(s) * time.Second) }
	var p progress
	for i, step := range []struct {
		second  int
		heard   *committed
		settled bool
		applied uint64
		want    bool
	}{
		{1, nil, true, 5, false},
		{2, &committed{5, at(0)}, true, 5, false}, // before it had this leader
		{3, &committed{9, at(3)}, true, 5, false},
		{4, &committed{12, at(4)}, true, 8, false},
		{5, &committed{12, at(5)}, false, 9, false}, // a new leader may not know yet what is durable
		{6, &committed{12, at(6)}, true, 9, true},
		{7, &committed{99, at(7)}, true, 10, true}, // it lags for a moment
		{15, &committed{99, at(15)}, true, 11, true},
		{16, &committed{99, at(16)}, true, 11, false}, // and for long
		{17, &committed{99, at(17)}, true, 12, true},
		{40, &committed{99, at(20)}, true, 99, false}, // nobody tells it anything
	} {
		if got := p.caughtUp(at(step.second), step.heard, step.settled, step.applied); got != step.want {
			t.Errorf("%d: %t", i, got)
		}
	}
}

// TestRefusedCommandIsNotPassedOver: who is to begin a group with what it holds does not begin it with what is left of
// that when a command is refused: the log that has the command would be gone.
func TestRefusedCommandIsNotPassedOver(t *testing.T) {
	m := &members{}
	m.place(t)
	alone := openDir(t, m.dirs[0])
	alone.Append([]byte("aone"))
	alone.await(t, 1)
	alone.Append(nil)
	await(t, "the command is refused", func() bool { return alone.Run(ended(t)) != nil })
	alone.close(t)
	m.start(t, 0)
	if n := len(m.up[0].journal.servers()); n != 0 {
		t.Errorf("it has begun a group of %d", n)
	}
	if found, _ := filepath.Glob(filepath.Join(m.dirs[0], asidePrefix+"*")); len(found) != 1 {
		t.Errorf("%d directories are set aside", len(found))
	}
}
