// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package admissions_test

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/roster-mesh/roster/agent/admissions"
	"github.com/roster-mesh/roster/agent/agenttest"
	"github.com/roster-mesh/roster/agent/payload"
	"github.com/roster-mesh/roster/agent/removals"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/mesh"
	"github.com/roster-mesh/roster/mesh/meshtest"
	"github.com/roster-mesh/roster/mesh/trust"
	"github.com/roster-mesh/roster/replica"
	"github.com/roster-mesh/roster/replica/removalguard"
)

// soon is within what time everybody has pinned who was admitted by one swap.
const soon = time.Second

// group are members on one network, in virtual time.
type group struct {
	t       *testing.T
	network *meshtest.Network
	members []*member
}

// member is a cluster as far as admissions go: pins, the replica, the mesh.
type member struct {
	g          *group
	id         string
	key        ed25519.PrivateKey
	trust      *trust.Table
	replica    *replica.Replica
	mesh       *mesh.Mesh
	admissions *admissions.Admissions // nil in a version that knows none
	guard      *removals.Guard        // nil where nothing is held
	ready      bool
	stop       context.CancelFunc
	stopped    chan error
}

func bubble(t *testing.T, f func(t *testing.T, g *group)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		g := &group{t: t, network: meshtest.NewNetwork(10 * time.Millisecond)}
		f(t, g)
		for _, m := range g.members {
			m.end()
		}
		time.Sleep(time.Minute) // probes that were under way end
	})
}

// add starts a member that has swapped with nobody. An earlier version neither signs admissions nor reads them.
func (g *group) add(id string, earlier bool) *member {
	seed := sha256.Sum256([]byte(id))
	m := &member{g: g, id: id, key: ed25519.NewKeyFromSeed(seed[:])}
	g.members = append(g.members, m)
	m.trust = trust.New(m.pin(), trust.Options{Pinned: func(p trust.Pin) {
		if m.ready {
			m.pinned(p.ClusterID)
		}
	}})
	m.start(1, earlier)
	return m
}

func (m *member) pin() trust.Pin {
	return trust.Pin{ClusterID: m.id, PublicKey: m.key.Public().(ed25519.PublicKey)}
}

func (m *member) start(epoch uint64, earlier bool) {
	t := m.g.t
	t.Helper()
	var err error
	if m.replica, err = replica.New(replica.Options{Self: m.id, PrivateKey: m.key, Epoch: epoch, Keyring: m.trust, Hold: m.hold, Removed: func(r replica.Removal, _, _ bool) {
		m.pinned(r.ClusterID)
	}}); err != nil {
		t.Fatal(err)
	}
	m.admissions = nil
	if !earlier {
		m.admissions = admissions.New(m.id, m.trust, m.replica, slog.New(slog.DiscardHandler))
		m.replica.Subscribe(m.admissions.Changed)
		m.admissions.Load()
	}
	m.mesh, err = mesh.New(mesh.Options{
		Identity: mesh.Identity{ClusterID: m.id, PrivateKey: m.key}, Trust: m.trust, State: m.replica, Network: m.g.network.Host(m.id), Listen: ":7946",
		Origin: replica.Origin, Endpoints: func(id string) []string { return []string{id + ":7946"} },
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	m.stop, m.stopped, m.ready = cancel, make(chan error, 1), true
	go func() { m.stopped <- m.mesh.Run(ctx) }()
	m.publish(payload.ClusterKey(m.id), m.describe())
	if m.admissions != nil {
		go func() { _ = m.admissions.Run(ctx) }()
		for _, id := range m.admissions.Subjects() {
			m.publishAdmission(id)
		}
	}
	m.mesh.Broadcast(m.replica.Complete()...)
}

func (m *member) hold(r replica.Removal) (s removalguard.Standing) {
	if m.guard != nil {
		s = m.guard.Hold(r)
	}
	return s
}

// describe is what a member publishes of itself.
func (m *member) describe() []byte {
	c := agenttest.Cluster(m.id, m.id)
	if m.admissions != nil {
		c.Status.SchemaVersion = v1alpha1.SchemaVersion
	}
	data, err := payload.EncodeCluster(c)
	if err != nil {
		m.g.t.Fatal(err)
	}
	return data
}

func (m *member) publish(key replica.Key, data []byte) {
	status := replica.Live
	if data == nil {
		status = replica.Deleted
	}
	msgs, err := m.replica.Publish(key, status, data)
	if err != nil {
		m.g.t.Error(err)
	}
	m.mesh.Broadcast(msgs...)
}

func (m *member) publishAdmission(id string) {
	data, err := m.admissions.Payload(id)
	if err != nil {
		m.g.t.Error(err)
	}
	m.publish(payload.AdmissionKey(id), data)
}

// pinned is what the agent does for a new pin, and for the end of one.
func (m *member) pinned(id string) {
	if m.admissions != nil {
		m.admissions.Pinned(id)
		m.publishAdmission(id)
	}
}

// end stops a member, and nobody hears a goodbye.
func (m *member) end() {
	if m.stop == nil {
		return
	}
	m.g.network.Isolate(m.id)
	m.stop()
	if err := <-m.stopped; err != nil {
		m.g.t.Errorf("%s: %v", m.id, err)
	}
	m.stop, m.ready = nil, false
}

// upgrade starts a member again as one that knows admissions. It has lost what it held of the others, but not whom it has pinned.
func (m *member) upgrade() {
	m.end()
	m.g.network.HealAll()
	m.start(m.replica.LastEpoch()+1, false)
}

// swap has a person in each of the two admit the other.
func (g *group) swap(a, b *member) {
	g.t.Helper()
	for _, side := range [][2]*member{{a, b}, {b, a}} {
		if err := side[0].trust.Pin(side[1].id, side[1].pin().PublicKey); err != nil {
			g.t.Fatal(err)
		}
		side[0].mesh.RetryNow(side[1].id)
	}
}

// lacking lists who has not pinned whom, of the members that run.
func (g *group) lacking() (pairs []string) {
	for _, a := range g.members {
		for _, b := range g.members {
			if a != b && a.stop != nil && b.stop != nil && !a.trust.IsPeer(b.id) {
				pairs = append(pairs, b.id+" in "+a.id)
			}
		}
	}
	return pairs
}

// whole waits until everybody has pinned everybody.
func (g *group) whole(within time.Duration, when string) {
	g.t.Helper()
	start := time.Now()
	for len(g.lacking()) > 0 && time.Since(start) < within {
		time.Sleep(50 * time.Millisecond)
	}
	if lacking := g.lacking(); len(lacking) > 0 {
		g.t.Fatalf("%s: after %v these are not pinned: %v", when, within, lacking)
	}
	g.t.Logf("%s: %v", when, time.Since(start))
}

// hub is a group of n members of which the first has swapped with each other.
func (g *group) hub(n int, earlier bool) *member {
	g.t.Helper()
	hub := g.add("hub", earlier)
	for i := range n - 1 {
		g.swap(hub, g.add(fmt.Sprintf("m%d", i), earlier))
	}
	g.whole(10*time.Second, "formation")
	return hub
}

// leave has a member leave the group.
func (g *group) leave(m *member) {
	g.t.Helper()
	r, err := m.replica.SignLeave(nil, m.id, 0)
	if err != nil {
		g.t.Fatal(err)
	}
	g.carry(m, m, r)
}

// remove has a person in one member remove another one, and keep whom that had admitted.
func (g *group) remove(by, m *member) {
	g.t.Helper()
	if by.admissions != nil {
		by.trust.Keep(by.admissions.Branch(m.id))
	}
	r, err := by.replica.SignRemoval(m.id, m.pin().PublicKey, m.id, by.id, 0)
	if err != nil {
		g.t.Fatal(err)
	}
	g.carry(by, m, r)
}

// carry has a member say that another one, or itself, is none any more.
func (g *group) carry(by, m *member, r replica.Removal) {
	g.t.Helper()
	if _, _, err := by.replica.Merge(r.Message(), ""); err != nil {
		g.t.Fatal(err)
	}
	by.mesh.Broadcast(r.Message())
	time.Sleep(5 * time.Second)
	m.end()
	for _, other := range g.members {
		if other.stop != nil && other.trust.IsPeer(m.id) {
			g.t.Fatalf("%s has not heard that %s is no member", other.id, m.id)
		}
	}
}
