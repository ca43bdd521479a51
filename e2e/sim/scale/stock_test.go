// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package scale

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/roster-mesh/roster/mesh/meshtest"
)

// headerSize is what a replicated message has beside its payload: names, numbers, claim and signature.
// The stock queue carries as much.
const headerSize = 230

// stock is a group of programs that spread news as memberlist's documentation says: whatever is seen
// for the first time is queued for gossip.
type stock struct {
	t        *testing.T
	interval time.Duration
	streams  *meshtest.Network
	packets  atomic.Int64 // bytes of all
	hosts    sync.Map     // *wire by address
	members  []*program
	watched  atomic.Pointer[tracker]
	current  atomic.Uint64
}

// program is one member of a stock group.
type program struct {
	group *stock
	index int
	list  *memberlist.Memberlist
	queue memberlist.TransmitLimitedQueue

	mu   sync.Mutex
	held map[uint64]bool
}

func measureStock(t *testing.T, n, changes int, interval time.Duration) (r result) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		g := &stock{t: t, interval: interval, streams: meshtest.NewNetwork(latency)}
		for range n {
			g.add()
			time.Sleep(100 * time.Millisecond)
		}
		start := time.Now()
		for !g.formed() {
			if time.Since(start) > 10*time.Minute {
				t.Fatal("the group does not form")
			}
			time.Sleep(time.Second)
		}
		r = measure(t, g, n, changes)
		for _, p := range g.members {
			if err := p.list.Shutdown(); err != nil {
				t.Error(err)
			}
		}
		time.Sleep(2 * time.Minute) // probes that were under way end
	})
	return r
}

func (g *stock) add() *program {
	p := &program{group: g, index: len(g.members), held: map[uint64]bool{}}
	ip := net.IPv4(10, 0, byte(p.index>>8), byte(p.index))
	c := memberlist.DefaultWANConfig()
	c.Name = fmt.Sprintf("%08x-7a3e-4c11-9d02-%012x", p.index, p.index)
	c.Transport = g.wire(ip)
	c.Delegate = p
	c.EnableCompression = false
	c.LogOutput = io.Discard
	if g.interval > 0 {
		c.GossipInterval = g.interval
	}
	p.queue = memberlist.TransmitLimitedQueue{
		NumNodes: func() int { return p.list.NumMembers() }, RetransmitMult: c.RetransmitMult,
	}
	var err error
	if p.list, err = memberlist.Create(c); err != nil {
		g.t.Fatal(err)
	}
	if p.index > 0 {
		if _, err := p.list.Join([]string{g.members[0].list.LocalNode().Address()}); err != nil {
			g.t.Fatal(err)
		}
	}
	g.members = append(g.members, p)
	return p
}

func (g *stock) formed() bool {
	for _, p := range g.members {
		if p.list.NumMembers() < len(g.members) {
			return false
		}
	}
	return true
}

func (g *stock) change(i int, seen *tracker) {
	g.watched.Store(seen)
	msg := binary.BigEndian.AppendUint64(nil, g.current.Add(1))
	g.members[i].NotifyMsg(append(msg, bytes.Repeat([]byte{'r'}, ruleSize+headerSize)...))
}

func (g *stock) sent() int64 { return g.streams.Sent() + g.packets.Load() }

func (g *stock) join() func() bool {
	g.add()
	return g.formed
}

// NotifyMsg takes what gossip brings.
func (p *program) NotifyMsg(msg []byte) {
	id := binary.BigEndian.Uint64(msg)
	p.mu.Lock()
	held := p.held[id]
	p.held[id] = true
	p.mu.Unlock()
	if held {
		return
	}
	if id == p.group.current.Load() {
		p.group.watched.Load().see(p.index)
	}
	p.queue.QueueBroadcast(news(bytes.Clone(msg)))
}

func (p *program) GetBroadcasts(overhead, limit int) [][]byte {
	return p.queue.GetBroadcasts(overhead, limit)
}
func (p *program) NodeMeta(int) []byte           { return nil }
func (p *program) LocalState(bool) []byte        { return nil }
func (p *program) MergeRemoteState([]byte, bool) {}

// errNoHost: nobody has that address.
var errNoHost = errors.New("no such host")

type news []byte

func (n news) Invalidates(memberlist.Broadcast) bool { return false }
func (n news) Message() []byte                       { return n }
func (n news) Finished()                             {}
func (n news) UniqueBroadcast()                      {}

// wire is a memberlist.Transport: packets that arrive after the latency, streams over meshtest.
type wire struct {
	group    *stock
	ip       net.IP
	listener net.Listener
	packets  chan *memberlist.Packet
	streams  chan net.Conn
	done     chan struct{}
}

func (g *stock) wire(ip net.IP) *wire {
	w := &wire{
		group: g, ip: ip, packets: make(chan *memberlist.Packet, 256), streams: make(chan net.Conn), done: make(chan struct{}),
	}
	var err error
	if w.listener, err = g.streams.Host(ip.String()).Listen(context.Background(), ":7946"); err != nil {
		g.t.Fatal(err)
	}
	g.hosts.Store(ip.String()+":7946", w)
	go func() {
		for {
			conn, err := w.listener.Accept()
			if err != nil {
				return
			}
			select {
			case w.streams <- conn:
			case <-w.done:
				_ = conn.Close()
			}
		}
	}()
	return w
}

func (w *wire) FinalAdvertiseAddr(string, int) (net.IP, int, error) { return w.ip, 7946, nil }

func (w *wire) WriteTo(b []byte, addr string) (time.Time, error) {
	host, ok := w.group.hosts.Load(addr)
	if !ok {
		return time.Time{}, errNoHost
	}
	to := host.(*wire)
	w.group.packets.Add(int64(len(b)))
	packet := &memberlist.Packet{Buf: bytes.Clone(b), From: &net.UDPAddr{IP: w.ip, Port: 7946}}
	time.AfterFunc(latency, func() {
		packet.Timestamp = time.Now()
		select {
		case to.packets <- packet:
		case <-to.done:
		}
	})
	return time.Now(), nil
}

func (w *wire) DialTimeout(addr string, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return w.group.streams.Host(w.ip.String()).Dial(ctx, addr)
}

func (w *wire) PacketCh() <-chan *memberlist.Packet { return w.packets }
func (w *wire) StreamCh() <-chan net.Conn           { return w.streams }

func (w *wire) Shutdown() error {
	close(w.done)
	return w.listener.Close()
}
