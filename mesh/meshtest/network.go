// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package meshtest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// backlog is how many dialled connections wait for one listener's Accept.
const backlog = 128

// Network joins hosts by links. All methods are safe for concurrent use.
type Network struct {
	mu       sync.RWMutex
	hosts    map[string]*Host
	latency  map[link]time.Duration
	standard time.Duration
	jitter   time.Duration
	loss     float64
	rate     float64 // bytes a second of each link; 0 is no bound
	cut      map[link]bool
	halves   map[*half]struct{}
	changed  chan struct{} // closed and replaced when a link opens or closes
	sent     atomic.Int64

	luckMu sync.Mutex // of luck
	luck   *rand.Rand // which segments are late or lost
}

// link is one direction between two hosts.
type link struct{ from, to string }

// NewNetwork returns a network in which every link takes latency one way.
func NewNetwork(latency time.Duration) *Network {
	return &Network{
		hosts:    map[string]*Host{},
		latency:  map[link]time.Duration{},
		standard: latency,
		cut:      map[link]bool{},
		halves:   map[*half]struct{}{},
		changed:  make(chan struct{}),
		luck:     rand.New(rand.NewPCG(1, 0)),
	}
}

// Seed makes another choice of the segments that are late or lost. Without it, networks all make the same one; which
// segment comes when is up to the scheduler.
func (n *Network) Seed(seed uint64) {
	n.luckMu.Lock()
	defer n.luckMu.Unlock()
	n.luck = rand.New(rand.NewPCG(seed, 0))
}

// Host returns the host of that name, which is made at its first mention.
func (n *Network) Host(name string) *Host {
	n.mu.Lock()
	defer n.mu.Unlock()
	h := n.hosts[name]
	if h == nil {
		h = &Host{network: n, name: name, listeners: map[string]*listener{}}
		n.hosts[name] = h
	}
	return h
}

// SetLatency sets how long a byte takes from a to b and from b to a.
func (n *Network) SetLatency(a, b string, latency time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.latency[link{a, b}], n.latency[link{b, a}] = latency, latency
}

// SetJitter makes each written segment take up to that much longer, which most
// take little of: the delay is distributed exponentially, cut off at jitter.
// Bytes of one connection stay in order; those of different ones do not.
func (n *Network) SetJitter(jitter time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.jitter = jitter
}

// SetBandwidth bounds how many bytes a second one direction of a connection
// carries; 0 is no bound.
func (n *Network) SetBandwidth(bytes int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.rate = float64(bytes)
}

// SetLoss makes each written segment of every link get lost with this
// probability. Like TCP, the segment and everything after it then arrive late.
func (n *Network) SetLoss(probability float64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.loss = probability
}

// Cut holds back everything between a and b, both ways, until Heal.
func (n *Network) Cut(a, b string) { n.set(true, link{a, b}, link{b, a}) }

// CutOneWay holds back what from sends to to. Dialling needs both ways.
func (n *Network) CutOneWay(from, to string) { n.set(true, link{from, to}) }

// Heal ends what Cut and CutOneWay did between a and b.
func (n *Network) Heal(a, b string) { n.set(false, link{a, b}, link{b, a}) }

// Partition cuts every link between hosts of different groups.
func (n *Network) Partition(groups ...[]string) {
	var links []link
	for i, group := range groups {
		for j, other := range groups {
			if i == j {
				continue
			}
			for _, a := range group {
				for _, b := range other {
					links = append(links, link{a, b})
				}
			}
		}
	}
	n.set(true, links...)
}

// Isolate cuts a host from every host known so far. Ending a process behind an
// isolated host is how a test makes it crash: nobody hears a goodbye.
func (n *Network) Isolate(name string) {
	var links []link
	n.mu.RLock()
	for other := range n.hosts {
		if other != name {
			links = append(links, link{name, other}, link{other, name})
		}
	}
	n.mu.RUnlock()
	n.set(true, links...)
}

// HealAll opens every link.
func (n *Network) HealAll() {
	n.mu.RLock()
	links := make([]link, 0, len(n.cut))
	for l := range n.cut {
		links = append(links, l)
	}
	n.mu.RUnlock()
	n.set(false, links...)
}

// Sent is the number of bytes that were written to connections so far.
func (n *Network) Sent() int64 { return n.sent.Load() }

func (n *Network) set(cut bool, links ...link) {
	n.mu.Lock()
	for _, l := range links {
		if cut {
			n.cut[l] = true
		} else {
			delete(n.cut, l)
		}
	}
	close(n.changed)
	n.changed = make(chan struct{})
	halves := make([]*half, 0, len(n.halves))
	for h := range n.halves {
		halves = append(halves, h)
	}
	n.mu.Unlock()
	for _, h := range halves {
		h.wake()
	}
}

func (n *Network) open(l link) bool {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return !n.cut[l]
}

// delay is how long the next segment of a link takes.
func (n *Network) delay(l link) time.Duration {
	n.mu.RLock()
	defer n.mu.RUnlock()
	n.luckMu.Lock()
	defer n.luckMu.Unlock()
	d, ok := n.latency[l]
	if !ok {
		d = n.standard
	}
	if n.jitter > 0 {
		d += min(n.jitter, time.Duration(n.luck.ExpFloat64()*float64(n.jitter)/5))
	}
	if n.loss > 0 && n.luck.Float64() < n.loss {
		d += 200*time.Millisecond + 2*d // RFC 6298: a retransmission waits for at least one round trip
	}
	return d
}

// transmission is how long a link is busy with so many bytes.
func (n *Network) transmission(size int) time.Duration {
	n.mu.RLock()
	defer n.mu.RUnlock()
	if n.rate == 0 {
		return 0
	}
	return time.Duration(float64(size) / n.rate * float64(time.Second))
}

func (n *Network) forget(h *half) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.halves, h)
}

// Host is one machine of a Network.
type Host struct {
	network *Network
	name    string

	mu        sync.Mutex
	listeners map[string]*listener // by port
	nextPort  int
}

// Listen opens a port of the host. Of addr only the port counts; port 0 picks one.
func (h *Host) Listen(_ context.Context, addr string) (net.Listener, error) {
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if port == "0" {
		h.nextPort++
		port = strconv.Itoa(40000 + h.nextPort)
	}
	if h.listeners[port] != nil {
		return nil, &net.OpError{Op: "listen", Net: "mem", Addr: address(addr), Err: syscall.EADDRINUSE}
	}
	l := &listener{host: h, port: port, queue: make(chan *conn, backlog), done: make(chan struct{})}
	h.listeners[port] = l
	return l, nil
}

// Dial connects to "host:port". While the path is cut it waits, like a
// handshake whose packets get lost.
func (h *Host) Dial(ctx context.Context, addr string) (net.Conn, error) {
	name, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	n := h.network
	there, back := link{h.name, name}, link{name, h.name}
	if err := n.travel(ctx, there, back); err != nil {
		return nil, &net.OpError{Op: "dial", Net: "mem", Addr: address(addr), Err: err}
	}
	refused := &net.OpError{Op: "dial", Net: "mem", Addr: address(addr), Err: syscall.ECONNREFUSED}
	n.mu.RLock()
	target := n.hosts[name]
	n.mu.RUnlock()
	if target == nil {
		return nil, refused
	}
	target.mu.Lock()
	l := target.listeners[port]
	target.mu.Unlock()
	if l == nil {
		return nil, refused
	}
	out, in := newHalf(n, there), newHalf(n, back)
	client := &conn{read: in, write: out, local: address(h.name + ":0"), remote: address(addr)}
	server := &conn{read: out, write: in, local: address(addr), remote: address(h.name + ":0")}
	select {
	case l.queue <- server:
		return client, nil
	default:
		_ = client.Close()
		_ = server.Close()
		return nil, refused
	}
}

// travel waits for one round trip over links that are open.
func (n *Network) travel(ctx context.Context, there, back link) error {
	for {
		n.mu.RLock()
		blocked, changed := n.cut[there] || n.cut[back], n.changed
		n.mu.RUnlock()
		if !blocked {
			break
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	timer := time.NewTimer(n.delay(there) + n.delay(back))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

type address string

func (a address) Network() string { return "mem" }
func (a address) String() string  { return string(a) }

type listener struct {
	host  *Host
	port  string
	queue chan *conn
	done  chan struct{}
	once  sync.Once
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.queue:
		return c, nil
	case <-l.done:
		return nil, fmt.Errorf("accept %s: %w", l.Addr(), net.ErrClosed)
	}
}

func (l *listener) Close() error {
	err := net.ErrClosed
	l.once.Do(func() {
		l.host.mu.Lock()
		delete(l.host.listeners, l.port)
		l.host.mu.Unlock()
		close(l.done)
		for {
			select {
			case c := <-l.queue:
				err = errors.Join(c.Close())
				continue
			default:
			}
			break
		}
		err = nil
	})
	return err
}

func (l *listener) Addr() net.Addr { return address(l.host.name + ":" + l.port) }
