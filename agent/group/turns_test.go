// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package group

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/roster-mesh/roster/agent/health"
	"github.com/roster-mesh/roster/agent/loop"
	"github.com/roster-mesh/roster/mesh/trust"
	"github.com/roster-mesh/roster/replica"
	"github.com/roster-mesh/roster/replica/journal"
)

// pair is two agents of one cluster, which lead in turn.
type pair struct {
	options [2]Options
	end     context.CancelFunc // of both

	mu    sync.Mutex
	terms []int  // who led
	epoch uint64 // the last that is durable
}

const terms = 3

// TestTurns: a leader that hands over follows again, is ready as a follower, and leads again with what the other one has
// published since.
func TestTurns(t *testing.T) {
	t.Parallel()
	o, _ := optionsOf(t)
	p := &pair{}
	peers := []string{freeAddress(t), freeAddress(t)}
	for i := range p.options {
		p.options[i] = o
		p.options[i].DataDir, p.options[i].Health = t.TempDir(), health.New()
		p.options[i].Address, p.options[i].MeshListen, p.options[i].Peers = peers[i], peers[i], peers
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	p.end = cancel
	var both sync.WaitGroup
	for i := range p.options {
		both.Go(func() {
			if err := p.run(ctx, i); err != nil && !errors.Is(err, context.Canceled) {
				t.Errorf("agent %d: %v", i, err)
			}
		})
	}
	both.Wait()
	if len(p.terms) < terms {
		t.Errorf("the terms were %v", p.terms)
	}
}

// run is one agent, until ctx ends.
func (p *pair) run(ctx context.Context, i int) error {
	o := p.options[i]
	for ctx.Err() == nil {
		o.Health.Follow(NotEntered)
		g, err := Enter(ctx, o)
		if err != nil { // the port may be another process's for a moment
			loop.Sleep(ctx, 10*time.Millisecond)
			continue
		}
		err = g.Run(ctx, func(ctx context.Context, term *journal.Term) error { return p.lead(ctx, g, term, i) })
		if !errors.Is(err, journal.ErrOtherGroup) {
			return err
		}
	}
	return nil
}

// lead is a term: what was published before is there, something is published, and the other one is let lead. In the last
// one that must be ready, too.
func (p *pair) lead(ctx context.Context, g *Group, term *journal.Term, i int) error {
	o := p.options[i]
	trust := trust.New(trust.Pin{ClusterID: o.ClusterID, PublicKey: publicKey(o.Key)}, trust.Options{})
	var published atomic.Bool // and durable: nothing is broadcast before
	held, err := replica.New(replica.Options{
		Self: o.ClusterID, PrivateKey: o.Key, Keyring: trust, Broadcast: func(...[]byte) { published.Store(true) },
	})
	if err == nil {
		err = errors.Join(g.Journal().Adopt(held), g.ClaimLeadership(ctx, held.LastEpoch()))
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return err
	}
	p.mu.Lock()
	durable := p.epoch
	p.mu.Unlock()
	if held.LastEpoch() < durable {
		return fmt.Errorf("epoch %d is durable, and %d is held", durable, held.LastEpoch())
	}
	now := held.LastEpoch() + 1
	if err := held.Open(now, term); err != nil {
		return err
	}
	if _, err := held.Publish(replica.Key{Kind: replica.KindFeature, Name: "f"}, replica.Live, []byte("{}")); err != nil {
		return err
	}
	if !until(ctx, published.Load) || !until(ctx, func() bool { return len(g.Status().Servers) == 2 }) {
		return ctx.Err()
	}
	p.mu.Lock()
	p.epoch = now
	if n := len(p.terms); n == 0 || p.terms[n-1] != i {
		p.terms = append(p.terms, i)
	}
	last := len(p.terms) == terms
	p.mu.Unlock()
	if last && until(ctx, func() bool { return p.options[1-i].Health.NotReady() == "" }) {
		p.end()
	}
	until(ctx, func() bool { return !last && g.Journal().HandOver(ctx) == nil })
	<-ctx.Done()
	return ctx.Err()
}

// until returns when a condition holds, or false when ctx has ended before.
func until(ctx context.Context, holds func() bool) bool {
	for !holds() {
		if loop.Sleep(ctx, 5*time.Millisecond); ctx.Err() != nil {
			return false
		}
	}
	return true
}

// freeAddress is one at which nobody listens.
func freeAddress(t *testing.T) string {
	t.Helper()
	var config net.ListenConfig
	listener, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}
