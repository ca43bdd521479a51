// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/roster-mesh/roster/mesh/trust"
)

func (m *member) dropped(reason string) int {
	return int(testutil.ToFloat64(m.metrics.drops.WithLabelValues(reason)))
}

// intruder speaks to members without being a mesh.
type intruder struct {
	t        testing.TB
	identity Identity
}

func newIntruder(t testing.TB) *intruder {
	t.Helper()
	key, err := GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	return &intruder{t, Identity{"intruder", key}}
}

// config is what an honest peer would use, for the test to spoil.
func (i *intruder) config(protocol string) *tls.Config {
	certificate, err := i.identity.certificate()
	if err != nil {
		i.t.Fatal(err)
	}
	return &tls.Config{Certificates: []tls.Certificate{certificate}, InsecureSkipVerify: true, NextProtos: []string{protocol}}
}

// dial connects; a TLS 1.3 client learns only from its first read whether it
// was accepted.
func (i *intruder) dial(m *member, config *tls.Config) (*tls.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	raw, err := m.options.Network.Dial(ctx, m.Addr().String())
	if err != nil {
		i.t.Fatal(err)
	}
	conn := tls.Client(raw, config)
	if err := conn.HandshakeContext(ctx); err != nil {
		_ = raw.Close()
		return nil, err
	}
	i.t.Cleanup(func() { _ = raw.Close() })
	return conn, nil
}

// closes waits until the other side has ended the connection.
func closes(conn net.Conn) error {
	if err := conn.SetReadDeadline(time.Now().Add(deadline)); err != nil {
		return err
	}
	_, err := io.Copy(io.Discard, conn)
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		return errors.New("connection stays open")
	}
	return nil
}

func TestStrangersAreRefused(t *testing.T) {
	g := newGroup(t, nil)
	defer g.end()
	m := g.add("a")
	i := newIntruder(t)
	honest := func() *tls.Config { return i.config(protocolPacket) }
	for name, c := range map[string]struct {
		reason string
		config func() *tls.Config
	}{
		"unpinned key": {dropUnpinned, honest},
		"old TLS":      {dropHandshake, func() *tls.Config { c := honest(); c.MaxVersion = tls.VersionTLS12; return c }},
		"no key":       {dropHandshake, func() *tls.Config { c := honest(); c.Certificates = nil; return c }},
		"unknown ALPN": {dropHandshake, func() *tls.Config { return i.config("other/1") }},
		"its own key": {dropUnpinned, func() *tls.Config {
			c, err := m.state.identity.certificate()
			if err != nil {
				t.Fatal(err)
			}
			config := honest()
			config.Certificates = []tls.Certificate{c}
			return config
		}},
	} {
		before := m.dropped(c.reason)
		if conn, err := i.dial(m, c.config()); err == nil {
			if err := closes(conn); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		await(t, deadline, name+" is counted as "+c.reason, func() bool { return m.dropped(c.reason) == before+1 })
	}
	raw, err := net.Dial("tcp", m.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	if _, err := raw.Write([]byte("GET / HTTP/1.1\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	if err := closes(raw); err != nil {
		t.Error(err)
	}
	await(t, deadline, "garbage is counted", func() bool { return m.dropped(dropGarbage) == 1 })
}

func TestNoALPN(t *testing.T) {
	g := newGroup(t, nil)
	defer g.end()
	m, i := g.add("a"), newIntruder(t)
	if err := m.trust.Pin("intruder", i.identity.PublicKey()); err != nil {
		t.Fatal(err)
	}
	config := i.config("")
	config.NextProtos = nil
	conn, err := i.dial(m, config)
	if err != nil {
		t.Fatal(err)
	}
	if err := closes(conn); err != nil {
		t.Error(err)
	}
	await(t, deadline, "a peer without a protocol is dropped", func() bool { return m.dropped(dropHandshake) == 1 })
}

func TestNoResumption(t *testing.T) {
	g := newGroup(t, nil)
	defer g.end()
	m, i := g.add("a"), newIntruder(t)
	if err := m.trust.Pin("intruder", i.identity.PublicKey()); err != nil {
		t.Fatal(err)
	}
	config := i.config(protocolPacket)
	config.ClientSessionCache = tls.NewLRUClientSessionCache(8)
	config.ServerName = "a"
	for range 3 {
		conn, err := i.dial(m, config)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Write(appendFrame(nil, frameAnnounce, make([]byte, 32))); err != nil {
			t.Fatal(err)
		}
		// The answer comes after where a ticket would.
		if _, err := io.ReadFull(conn, make([]byte, frameHeader)); err != nil {
			t.Fatal(err)
		}
		if conn.ConnectionState().DidResume {
			t.Fatal("a session was resumed")
		}
		_ = conn.Close()
		l := m.transport.packets.queue("intruder")
		await(t, deadline, "the connection ends", func() bool {
			l.mu.Lock()
			defer l.mu.Unlock()
			return l.current == nil
		})
	}
}

func TestWrongCluster(t *testing.T) {
	g := newGroup(t, nil)
	defer g.end()
	var out syncBuffer
	a := g.add("a", func(o *Options) { o.Log = textLogger(&out) })
	b, c := g.add("b"), g.add("c")
	g.swap(a, b)
	g.swap(b, c)
	await(t, deadline, "group forms", formed(a, b, c))
	await(t, deadline, "states converge, for which they dial", equal(a, b, c))
	g.mu.Lock()
	addr := g.addrs["b"]
	g.addrs["b"] = g.addrs["c"] // b's endpoint leads to c now
	g.mu.Unlock()
	if _, err := a.transport.dialer.dial(t.Context(), "b", protocolPacket); !errors.Is(err, ErrWrongCluster) || !strings.Contains(err.Error(), "to c") {
		t.Errorf("dialled b at c's endpoint: %v", err)
	}
	for range 3 {
		_, _ = a.transport.dialer.dial(t.Context(), "b", protocolPacket)
	}
	if n := strings.Count(out.String(), "wrong cluster"); n != 1 {
		t.Errorf("logged %d times:\n%s", n, out.String())
	}
	if _, err := a.transport.dialer.dial(t.Context(), "nobody", protocolPacket); !errors.Is(err, ErrNoEndpoint) {
		t.Errorf("dialled nobody: %v", err)
	}
	g.mu.Lock()
	g.addrs["nobody"], g.addrs["b"] = addr, addr
	g.mu.Unlock()
	if _, err := a.transport.dialer.dial(t.Context(), "nobody", protocolPacket); !errors.Is(err, ErrUnpinned) {
		t.Errorf("dialled a cluster without a pin: %v", err)
	}
}

// TestPinnedButHostile: a peer with a pin sends what no mesh sends.
func TestPinnedButHostile(t *testing.T) {
	g := newGroup(t, nil)
	defer g.end()
	m, i := g.add("a"), newIntruder(t)
	if err := m.trust.Pin("intruder", i.identity.PublicKey()); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		protocol, reason string
		data             []byte
		ends             bool
	}{
		"oversized frame":     {protocolPacket, dropOversized, []byte{frameMessage, 0xff, 0xff, 0xff, 1, 2, 3}, true},
		"unknown frame":       {protocolPacket, dropMalformed, appendFrame(nil, 77, []byte("?")), false},
		"empty digest":        {protocolPacket, dropMalformed, appendFrame(nil, frameDigest, nil), false},
		"short announcement":  {protocolPacket, dropMalformed, appendFrame(nil, frameAnnounce, []byte("?")), false},
		"packet bomb":         {protocolPacket, dropMalformed, appendFrame(nil, framePacket, []byte{9, 0x82}), false},
		"large alive message": {protocolPacket, dropOversized, appendFrame(nil, framePacket, append([]byte{mlAlive}, make([]byte, 5000)...)), false},
		"a million members":   {protocolStream, dropOversized, pushPull(t, pushPullHeader{Nodes: 1 << 20}), true},
		"stream bomb":         {protocolStream, dropMalformed, []byte{9, 0x82}, true},
		"foreign state":       {protocolStream, dropMalformed, append(pushPull(t, pushPullHeader{UserStateLen: 3}), 9, 9, 9), true},
	} {
		before := m.dropped(c.reason)
		conn, err := i.dial(m, i.config(c.protocol))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Write(c.data); err != nil {
			t.Fatal(err)
		}
		await(t, deadline, name+" is counted as "+c.reason, func() bool { return m.dropped(c.reason) > before })
		if c.ends {
			if err := closes(conn); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		_ = conn.Close()
	}
	var conns []net.Conn
	for range maxPeerConns + 4 {
		conn, err := i.dial(m, i.config(protocolRPC))
		if err != nil {
			t.Fatal(err)
		}
		conns = append(conns, conn)
	}
	await(t, deadline, "connections above a peer's bound are dropped", func() bool { return m.dropped(dropPeerLimit) >= 4 })
	for _, conn := range conns {
		_ = conn.Close()
	}
}

// TestForeignGossip: a pinned member cannot bring in names that are not pinned.
func TestForeignGossip(t *testing.T) {
	d := &delegate{trust: trust.New(trust.Pin{ClusterID: "self", PublicKey: testKeys(1)[0]}, trust.Options{})}
	if err := d.trust.Pin("friend", testKeys(2)[1]); err != nil {
		t.Fatal(err)
	}
	good := aliveNode("friend")
	if err := d.NotifyAlive(&good); err != nil {
		t.Fatal(err)
	}
	stranger, moved, talkative, version := aliveNode("stranger"), aliveNode("friend"), aliveNode("friend"), aliveNode("friend")
	moved.Addr = net.IPv4(10, 0, 0, 1)
	talkative.Meta = []byte("x")
	version.PMin = memberProtocol + 1
	for _, bad := range []struct {
		what string
		err  error
	}{
		{"stranger", d.NotifyAlive(&stranger)},
		{"moved", d.NotifyAlive(&moved)},
		{"metadata", d.NotifyAlive(&talkative)},
		{"version", d.NotifyAlive(&version)},
	} {
		if !errors.Is(bad.err, errForeign) {
			t.Errorf("%s: %v", bad.what, bad.err)
		}
	}
}

func TestOptions(t *testing.T) {
	g := newGroup(t, nil)
	defer g.end()
	a := g.add("a")
	o := a.options
	o.Listen = a.Addr().String()
	if _, err := New(o); err == nil || !strings.Contains(err.Error(), "open mesh port "+o.Listen) || strings.Contains(err.Error(), "\n") {
		t.Errorf("port in use: %v", err)
	}
	o = a.options
	o.Trust = trust.New(trust.Pin{ClusterID: "b", PublicKey: testKeys(1)[0]}, trust.Options{})
	if _, err := New(o); !errors.Is(err, errOptions) {
		t.Errorf("another cluster's trust: %v", err)
	}
	o = a.options
	o.Metrics = prometheus.NewRegistry()
	for range 2 {
		m, err := New(o)
		if err != nil {
			if !strings.Contains(err.Error(), "register metrics") {
				t.Error(err)
			}
			continue
		}
		_ = m.Close()
	}
	await(t, deadline, "the first run has begun", a.ran.Load)
	if err := a.Run(t.Context()); !errors.Is(err, errRan) {
		t.Errorf("second run: %v", err)
	}
	if _, err := a.Call(t.Context(), "a", "Greet", nil); !errors.Is(err, ErrUnpinned) {
		t.Errorf("a call of itself: %v", err)
	}
}

// pulled is how often the member has pulled.
func (m *member) pulled() (n int) {
	for _, result := range []string{"fresh", "empty", "failed"} {
		n += int(testutil.ToFloat64(m.metrics.pulls.WithLabelValues(result)))
	}
	return n
}
