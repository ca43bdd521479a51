// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"context"
	crand "crypto/rand"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/memberlist"
	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"
	"google.golang.org/grpc"

	"github.com/roster-mesh/roster/mesh/pace"
)

// drainTimeout bounds how long the goodbye may wait for slow peers.
const drainTimeout = 500 * time.Millisecond

// errRan: a Mesh runs once.
var errRan = errors.New("mesh has run already")

// Mesh is one cluster's place in the group. Its methods are safe for
// concurrent use, also before and after Run.
type Mesh struct {
	options     Options
	metrics     *metrics
	port        *port
	rpcListener *chanListener
	transport   *transport
	delegate    *delegate
	server      *server
	clients     *clients
	broadcaster *broadcaster
	pulls       *puller
	joins       *joiner
	throttle    *pace.Throttle
	members     *memberList
	gapPulls    *rate.Limiter
	secret      string       // of the choice of neighbours
	alive       atomic.Int64 // live ones, this cluster included
	ran         atomic.Bool

	mu        sync.Mutex
	logged    map[string]string // what was last logged about a member
	removedBy map[string]bool   // members that told us that our key was removed
}

// New opens the port, so that one that is in use is reported early, and starts
// nothing. A mesh that is not run must be closed.
func New(o Options) (_ *Mesh, err error) {
	listener := o.Listener
	defer func() {
		if err != nil && listener != nil {
			_ = listener.Close()
		}
	}()
	if err := o.complete(); err != nil {
		return nil, err
	}
	certificate, err := o.Identity.certificate()
	if err != nil {
		return nil, err
	}
	if listener == nil {
		if listener, err = o.Network.Listen(context.Background(), o.Listen); err != nil { //nolint:forbidigo // takes no time
			return nil, fmt.Errorf("open mesh port %s: %w", o.Listen, err)
		}
	}
	m := &Mesh{options: o, members: &memberList{members: map[string]Member{}}, logged: map[string]string{}, removedBy: map[string]bool{}}
	if m.metrics, err = newMetrics(o.Metrics); err != nil {
		return nil, err
	}
	m.alive.Store(1)
	m.assemble(listener, &authenticator{certificate, o.Trust, o.Protocols})
	return m, nil
}

// assemble connects the parts with each other.
func (m *Mesh) assemble(listener net.Listener, auth *authenticator) {
	o := m.options
	d := &dialer{o.Network, auth, o.Endpoints, m.metrics, m.dialReport, pace.NewBudget(maxAddresses, dialPeriod, o.Trust.Share)}
	m.transport = newTransport(o.Identity.ClusterID, d, m.metrics)
	m.transport.message = m.receive
	packets := m.transport.packets
	m.broadcaster = newBroadcaster(packets.send, m.ours, o.Origin, o.Trust.Share)
	packets.connected, packets.lost = m.broadcaster.connected, m.broadcaster.sendDiffer
	packets.warm = m.broadcaster.isWarm

	m.clients = newClients(d.dial)
	m.pulls = newPuller()
	m.pulls.pull, m.pulls.alive = m.pull, m.members.present
	m.pulls.ours = m.ours
	m.pulls.result = func(r string) { m.metrics.pulls.WithLabelValues(r).Inc() }
	m.throttle = pace.New(mergeRate, mergeBurst, pacedPeers, o.Trust.Share)
	m.gapPulls = rate.NewLimiter(gapRate, gapBurst)
	m.secret = crand.Text()
	m.broadcaster.contents = func() []byte { return contents(o.State.Digest()) }
	m.broadcaster.swapped, m.pulls.swapped = o.Trust.Swapped, o.Trust.Swapped
	m.joins = newJoiner()
	m.joins.introducer = o.Trust.Introducer
	m.pulls.share, m.joins.share = o.Trust.Share, o.Trust.Share
	m.joins.missing = m.missing
	m.joins.present = func() int { return int(m.alive.Load()) - 1 }
	m.joins.failed = func(id string, err error) { m.logUnreachable(id, "refused", err) }

	m.delegate = &delegate{
		self: o.Identity.ClusterID, trust: o.Trust, state: o.State,
		pulls: m.pulls, metrics: m.metrics,
		changed: make(chan struct{}, 1),
	}
	for name, method := range o.Methods {
		if method.Serve != nil {
			method.Serve = m.guardMethod(name, method.Serve)
			o.Methods[name] = method // a copy of the owner's, see complete
		}
	}
	m.server = newServer(o.State, o.Methods, o.Trust, m.metrics)
	m.server.behind = m.pulls.requestFor
	m.rpcListener = newChanListener(listener.Addr())
	m.port = newPort(listener, auth, m.metrics)
	m.port.removalNotice = o.RemovalNotice
	m.port.handlers[protocolPacket] = m.noteContact(packets.accept)
	m.port.handlers[protocolStream] = m.noteContact(m.transport.acceptStream)
	m.port.handlers[protocolRPC] = func(_ context.Context, _ Caller, conn net.Conn) { m.rpcListener.deliver(conn) }
	for name, h := range o.Protocols {
		h.Serve = m.guardProtocol(name, h.Serve)
		m.port.handlers[name] = h.closing
	}
}

// noteContact is a handler that first has the peer joined, should it be missing.
func (m *Mesh) noteContact(next func(peer string, conn net.Conn)) handler {
	return func(_ context.Context, from Caller, conn net.Conn) {
		if !m.members.isPresent(from.ClusterID) {
			m.joins.contacted(from.ClusterID)
		}
		next(from.ClusterID, conn)
	}
}

// Addr is where the port listens.
func (m *Mesh) Addr() net.Addr { return m.port.listener.Addr() }

// Close gives the port back. Run does it by itself.
func (m *Mesh) Close() error {
	m.clients.close()
	m.port.close()
	return nil
}

// Run takes part in the group until the context ends: it joins pinned members, answers them, spreads messages and pulls
// what is missing. Then it says goodbye, which takes at most two seconds, and returns nil when everything has ended. It
// can be called once.
func (m *Mesh) Run(ctx context.Context) error {
	if m.ran.Swap(true) {
		return errRan
	}
	defer m.Close()
	list, err := memberlist.Create(membershipConfig(m.transport, m.delegate, m.options.Log))
	if err != nil {
		return fmt.Errorf("start membership: %w", err)
	}
	m.joins.join = func(id string) error { return join(list, id) }
	// What carries the goodbye lasts longer than ctx.
	carry, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	rpc := m.server.grpc()
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { m.transport.run(carry); return nil })
	g.Go(func() error { return m.port.serve(carry) })
	g.Go(func() error {
		if err := rpc.Serve(m.rpcListener); !errors.Is(err, grpc.ErrServerStopped) {
			return err
		}
		return nil
	})
	g.Go(func() error { m.watch(ctx); return nil })
	g.Go(func() error { m.joins.run(ctx); return nil })
	g.Go(func() error { m.pulls.run(ctx); return nil })
	g.Go(func() error {
		<-ctx.Done()
		m.throttle.End()
		m.server.pulls.End()
		m.leave(carry, list)
		stop()
		m.clients.close()
		rpc.Stop()
		return nil
	})
	return g.Wait()
}

// leave says goodbye and ends memberlist.
func (m *Mesh) leave(ctx context.Context, list *memberlist.Memberlist) {
	if m.options.Quiet {
		_ = list.Shutdown()
		return
	}
	if err := list.Leave(leaveTimeout); err != nil {
		m.options.Log.Debug("leave", "error", err)
	}
	ctx, cancel := context.WithTimeout(ctx, drainTimeout)
	defer cancel()
	m.transport.packets.drain(ctx)
	_ = list.Shutdown()
}

// Broadcast spreads messages that this cluster has made. It does not block.
func (m *Mesh) Broadcast(msgs ...[]byte) { m.broadcaster.spread(msgs, "") }

// RetryNow tries at once what waits for the next attempt to reach a member. Call it
// when that member's endpoints may have changed; it says so itself, so that
// others' waits are none of its business.
func (m *Mesh) RetryNow(clusterID string) {
	m.transport.packets.retryNow(clusterID)
	m.clients.retryNow(clusterID)
	m.pulls.retryNow(clusterID)
	m.joins.retryNow(clusterID)
}

// Pull fetches from a member what it holds and we lack.
func (m *Mesh) Pull(ctx context.Context, clusterID string) error {
	_, err := m.pull(ctx, clusterID)
	return err
}

// pull merges a member's delta and forwards what was fresh in it, so that an
// introduction reaches those who are not connected to the newcomer.
func (m *Mesh) pull(ctx context.Context, id string) (got pullResult, err error) {
	if !m.options.Trust.IsPeer(id) {
		return pullResult{}, ErrUnpinned
	}
	again := false
	var news [][]byte
	err = m.clients.pull(ctx, id, m.options.State.Digest(), func(msg []byte) verdict {
		v, pull, _ := m.merge(msg, id, id)
		again = again || pull
		if v != fresh {
			got.wasted += len(msg)
			return v
		}
		got.wasted -= len(msg)
		if got.fresh++; len(news) <= bulk { // one more is enough to make it an announcement
			news = append(news, msg)
		}
		return v
	})
	m.broadcaster.spread(news, id)
	if again && m.gapPulls.Allow() {
		m.pulls.request(m.other(id))
	}
	return got, err
}

// other is a live member that is not id, if there is one.
func (m *Mesh) other(id string) string {
	others := slices.DeleteFunc(m.members.present(), func(o string) bool { return o == id })
	if len(others) == 0 {
		return id
	}
	return others[rand.IntN(len(others))]
}

// merge takes a message that a peer sent. Who sends faster than we want to check
// signatures waits.
func (m *Mesh) merge(msg []byte, peer, introducer string) (v verdict, pull bool, err error) {
	if introducer != "" && !m.options.Trust.IsPeer(introducer) {
		return rejected, false, ErrUnpinned // it was removed while it talked
	}
	isFresh, pull, err := m.options.State.Merge(msg, introducer)
	result := "known"
	switch {
	case err != nil:
		v, result = rejected, "rejected"
	case isFresh:
		v, result = fresh, "fresh"
	}
	m.metrics.messages.WithLabelValues(result).Inc()
	if v != known {
		m.throttle.Wait(peer, messageCost(msg))
	}
	return v, pull, err
}

// receive takes what a peer sent outside of memberlist's own traffic.
func (m *Mesh) receive(peer string, kind byte, payload []byte) {
	switch kind {
	case frameMessage:
		v, pull, _ := m.merge(payload, peer, "")
		if v == rejected && pull { // of somebody unknown, whom the peer introduces if this is his own entry
			v, pull, _ = m.merge(payload, peer, peer)
		}
		if v == fresh {
			m.broadcaster.spread([][]byte{payload}, peer)
		}
		if pull {
			m.pulls.request(peer)
		}
	case frameRemoved:
		m.takeRemovalNotice(peer, payload)
	case frameAnnounce:
		if theirs, ok := m.summary(payload); ok {
			m.broadcaster.announced(peer, theirs)
		}
	case frameDiffer:
		if theirs, ok := m.summary(payload); ok {
			m.pulls.requestFor(peer, theirs)
		}
	case frameDigest:
		m.compare(peer, payload)
	default:
		m.metrics.drop(dropMalformed)
	}
}

// compare takes what a peer holds that did not choose us; earlier agents answer an announcement with it.
func (m *Mesh) compare(peer string, payload []byte) {
	if len(payload) == 0 {
		m.metrics.drop(dropMalformed)
		return
	}
	if theirs := summarize(payload[1:]); theirs != m.ours() {
		m.pulls.requestFor(peer, theirs)
		m.broadcaster.sendDiffer(peer)
	}
}

// ours stands for what is held here.
func (m *Mesh) ours() summary { return summarize(m.options.State.Digest()) }

// summary decodes what a peer says that it holds.
func (m *Mesh) summary(payload []byte) (theirs summary, ok bool) {
	theirs, err := decodeSummary(payload)
	if err != nil {
		m.metrics.dropped(err)
	}
	return theirs, err == nil
}
