// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"
)

// wire is a Stream on the loopback interface.
type wire struct{ net.Listener }

func (wire) Dial(address string, timeout time.Duration) (net.Conn, error) {
	return (&net.Dialer{Timeout: timeout}).Dial("tcp", address)
}

// members is a group of three, each with a directory and an address that stay.
type members struct {
	dirs      [3]string
	addresses [3]string
	up        [3]*opened
	keys      [3]string // of the cluster, as each of them knows it; "" is the first one

	charter
}

// charter is a record that is changed by compare-and-swap.
type charter struct {
	mu  sync.Mutex
	now Record
	key string // the cluster's, when it has been replaced
}

var errChanged = errors.New("the record has changed")

func (c *charter) Read(context.Context) (Record, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now, nil
}

func (c *charter) Replace(_ context.Context, before, now Record) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.now != before:
		return errChanged
	case before.Key != "" && before.Key != now.Key && now.Key != c.key:
		return ErrOtherGroup
	}
	c.now = now
	return nil
}

func newMembers(t *testing.T) *members {
	t.Helper()
	m := &members{}
	m.place(t)
	for i := range m.dirs {
		m.start(t, i)
	}
	return m
}

// place finds room for three.
func (m *members) place(t *testing.T) {
	t.Helper()
	for i := range m.dirs {
		m.dirs[i] = t.TempDir()
		listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		m.addresses[i] = listener.Addr().String()
		defer listener.Close() // once there are three, so that they differ
	}
	t.Cleanup(func() {
		for i := range m.up {
			m.stop(t, i)
		}
	})
}

// listen takes an address again. Somebody else may have dialed from its port meanwhile, mostly for a moment.
func (m *members) listen(t *testing.T, i int) (listener net.Listener) {
	t.Helper()
	await(t, m.addresses[i]+" is free", func() bool {
		var err error
		listener, err = new(net.ListenConfig).Listen(t.Context(), "tcp", m.addresses[i])
		if err != nil && !errors.Is(err, syscall.EADDRINUSE) {
			t.Fatal(err)
		}
		return err == nil
	})
	return listener
}

// group is what one of them knows of the others.
func (m *members) group(i int) *Group {
	return &Group{Address: m.addresses[i], Peers: m.addresses[:], Records: m}
}

func (m *members) options(i int, stream Stream) (Options, *opened) {
	o, at := options(m.dirs[i])
	o.Log = slog.New(slog.DiscardHandler)
	if m.keys[i] != "" {
		o.PublicKey = []byte(m.keys[i])
	}
	o.Group = m.group(i)
	o.Group.Stream = stream
	return o, at
}

func (m *members) start(t *testing.T, i int) {
	t.Helper()
	m.startOn(t, i, func(w wire) Stream { return w })
}

func (m *members) startOn(t *testing.T, i int, stream func(wire) Stream) {
	t.Helper()
	at, err := m.tryOpen(t, i, stream)
	if err != nil {
		t.Fatal(err)
	}
	m.up[i] = at
}

func (m *members) tryOpen(t *testing.T, i int, stream func(wire) Stream) (*opened, error) {
	t.Helper()
	listener := m.listen(t, i)
	o, at := m.options(i, stream(wire{listener}))
	var err error
	if at.journal, err = Open(t.Context(), o); err != nil {
		_ = listener.Close()
	}
	return at, err
}

// heed opens again what says that it has turned to another group.
func (m *members) heed(t *testing.T) {
	t.Helper()
	for i, at := range m.up {
		if at == nil {
			continue
		}
		select {
		case <-at.journal.ended:
			if !errors.Is(at.journal.err, ErrOtherGroup) {
				t.Fatal(at.journal.err)
			}
			m.stop(t, i)
			m.start(t, i)
		default:
		}
	}
}

func (m *members) stop(t *testing.T, i int) {
	t.Helper()
	if m.up[i] == nil {
		return
	}
	if m.up[i].Term != nil {
		m.up[i].End()
	}
	if err := m.up[i].journal.Close(); err != nil {
		t.Error(err)
	}
	m.up[i] = nil
}

// leader waits for one that leads, and gives it its term.
func (m *members) leader(t *testing.T) (leads int) {
	t.Helper()
	await(t, "one that leads", func() bool {
		m.heed(t)
		for i, at := range m.up {
			if at == nil || !at.journal.Status().Leads {
				continue
			}
			if at.Term != nil {
				at.End()
			}
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			term, err := at.journal.Lead(ctx)
			cancel()
			switch {
			case errors.Is(err, context.DeadlineExceeded): // it does not any more
				continue
			case err != nil:
				t.Fatal(err)
			}
			at.Term, leads = term, i
			return true
		}
		return false
	})
	return leads
}

func (m *members) has(t *testing.T, key byte, value string) {
	t.Helper()
	for i := range m.up {
		if m.up[i] != nil {
			await(t, fmt.Sprintf("%d has %s", i, value), func() bool {
				m.heed(t)
				return m.up[i].table.get(key) == value
			})
		}
	}
}

// tell has whoever leads append, again if that one loses its place, until all that are up have it.
func (m *members) tell(t *testing.T, key byte, value string) (leads int) {
	t.Helper()
	for again := true; again; {
		leads = m.leader(t)
		at := m.up[leads]
		at.Append(append([]byte{key}, value...))
		await(t, value+" is told", func() bool {
			if err := at.Run(ended(t)); err != nil {
				at.End()
				return true
			}
			again = at.table.get(key) != value
			return !again
		})
	}
	m.has(t, key, value)
	return leads
}

// append has the one that leads make operations durable, or the next one that does.
func (m *members) append(t *testing.T, leads int, ops ...[]byte) int {
	t.Helper()
	for m.up[leads].append(ops) != nil {
		leads = m.leader(t)
	}
	return leads
}

func ended(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	t.Cleanup(cancel)
	return ctx
}

func (m *members) voters(t *testing.T, i, n int) {
	t.Helper()
	await(t, fmt.Sprintf("%d voters", n), func() bool {
		m.heed(t)
		return len(m.up[i].journal.Status().Servers) == n
	})
}

func (m *members) loseDisk(t *testing.T, i int) {
	t.Helper()
	m.stop(t, i)
	if err := errors.Join(os.RemoveAll(m.dirs[i]), os.Mkdir(m.dirs[i], 0o700)); err != nil {
		t.Fatal(err)
	}
}
