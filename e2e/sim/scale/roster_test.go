// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package scale

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/roster-mesh/roster/mesh"
	"github.com/roster-mesh/roster/mesh/meshtest"
	"github.com/roster-mesh/roster/mesh/trust"
	"github.com/roster-mesh/roster/replica"
)

// roster is a group of agents: real meshes and replicas.
type roster struct {
	t       *testing.T
	start   func(*mesh.Mesh) error // runs it until the measurement ends
	network *meshtest.Network
	agents  []*agent
	watched atomic.Pointer[watched]
}

// watched is the change that is being measured.
type watched struct {
	change replica.Change
	seen   *tracker
}

type agent struct {
	id      string
	key     ed25519.PrivateKey
	trust   *trust.Table
	replica *replica.Replica
	mesh    *mesh.Mesh
	stopped chan error
	said    [][]byte // what it published
}

func measureRoster(t *testing.T, n, changes int) (r result) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		g := &roster{t: t, network: meshtest.NewNetwork(latency)}
		g.start = func(m *mesh.Mesh) error { return m.Run(ctx) }
		for i := range n {
			g.add(i)
		}
		g.preload()
		for _, a := range g.agents {
			g.run(a)
			time.Sleep(2 * time.Millisecond)
		}
		start := time.Now()
		for !g.formed(g.agents...) {
			if time.Since(start) > 10*time.Minute {
				t.Fatal("the group does not form")
			}
			time.Sleep(time.Second)
		}
		r = measure(t, g, n, changes)
		if r.Missed > 0 {
			t.Errorf("%d changes did not reach all of %d agents within %v", r.Missed, n, pause)
		}
		stop()
		for _, a := range g.agents {
			if err := <-a.stopped; err != nil {
				t.Errorf("%s: %v", a.id, err)
			}
		}
		time.Sleep(time.Minute) // probes that were under way end
	})
	return r
}

func (g *roster) add(i int) *agent {
	seed := sha256.Sum256(fmt.Append(nil, "scale ", i))
	id := fmt.Sprintf("%x-7a3e-4c11-9d02-%012x", seed[:4], i)
	a := &agent{id: id, key: ed25519.NewKeyFromSeed(seed[:]), stopped: make(chan error, 1)}
	a.trust = trust.New(trust.Pin{ClusterID: id, PublicKey: a.public()}, trust.Options{})
	var err error
	a.replica, err = replica.New(replica.Options{
		Self: id, PrivateKey: a.key, Epoch: 1, Keyring: a.trust,
	})
	if err != nil {
		g.t.Fatal(err)
	}
	a.replica.Subscribe(func(changes []replica.Change) {
		for _, c := range changes {
			if w := g.watched.Load(); w != nil && c == w.change {
				w.seen.see(i)
			}
		}
	})
	a.said, err = a.replica.Publish(replica.Key{Kind: replica.KindCluster, Name: id}, replica.Live, bytes.Repeat([]byte{'c'}, clusterSize))
	if err != nil {
		g.t.Fatal(err)
	}
	a.said = append(a.said, a.replica.Complete()...)
	g.agents = append(g.agents, a)
	return a
}

func (a *agent) public() ed25519.PublicKey { return a.key.Public().(ed25519.PublicKey) }

// preload makes everybody know everybody: how a group comes to that is measured by join.
func (g *roster) preload() {
	var workers sync.WaitGroup
	next := make(chan *agent, len(g.agents))
	for _, a := range g.agents {
		next <- a
	}
	close(next)
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for a := range next {
				for _, b := range g.agents {
					if a == b {
						continue
					}
					if err := a.trust.Pin(b.id, b.public()); err != nil {
						g.t.Error(err)
					}
					for _, msg := range b.said {
						if _, _, err := a.replica.Merge(msg, ""); err != nil {
							g.t.Error(err)
						}
					}
				}
			}
		})
	}
	workers.Wait()
}

func (g *roster) run(a *agent) {
	var err error
	a.mesh, err = mesh.New(mesh.Options{
		Identity: mesh.Identity{ClusterID: a.id, PrivateKey: a.key},
		Trust:    a.trust, State: a.replica, Network: g.network.Host(a.id), Listen: ":7946", Origin: replica.Origin,
		Endpoints: func(id string) []string { return []string{id + ":7946"} },
	})
	if err != nil {
		g.t.Fatal(err)
	}
	go func() { a.stopped <- g.start(a.mesh) }()
}

// formed says whether some agents see everybody alive and hold the same.
func (g *roster) formed(agents ...*agent) bool {
	first := g.agents[0].replica.Digest()
	for _, a := range agents {
		if !bytes.Equal(a.replica.Digest(), first) {
			return false
		}
		alive := 0
		for _, m := range a.mesh.Members() {
			if m.State == mesh.Alive {
				alive++
			}
		}
		if alive < len(g.agents)-1 {
			return false
		}
	}
	return true
}

func (g *roster) change(i int, seen *tracker) {
	a := g.agents[i]
	key := replica.Key{Kind: replica.KindRule, Name: "rule"}
	g.watched.Store(&watched{replica.Change{Key: key, Origin: a.id}, seen})
	seen.see(i)
	payload := fmt.Appendf(nil, "%0*d", ruleSize, time.Now().UnixNano()) // never the same twice
	msgs, err := a.replica.Publish(key, replica.Live, payload)
	if err != nil {
		g.t.Fatal(err)
	}
	a.mesh.Broadcast(msgs...)
}

func (g *roster) sent() int64 { return g.network.Sent() }

// join swaps one more agent with one member.
func (g *roster) join() func() bool {
	a, sponsor := g.add(len(g.agents)), g.agents[0]
	if err := a.trust.Pin(sponsor.id, sponsor.public()); err != nil {
		g.t.Fatal(err)
	}
	if err := sponsor.trust.Pin(a.id, a.public()); err != nil {
		g.t.Fatal(err)
	}
	g.run(a)
	a.mesh.Broadcast(a.said...)
	return func() bool { return g.formed(g.agents...) }
}
