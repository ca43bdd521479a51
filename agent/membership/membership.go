// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"context"
	"crypto/ed25519"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roster-mesh/roster/agent/health"
	"github.com/roster-mesh/roster/agent/informers"
	"github.com/roster-mesh/roster/agent/loop"
	"github.com/roster-mesh/roster/agent/store"
	"github.com/roster-mesh/roster/kube"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/mesh"
	"github.com/roster-mesh/roster/replica"
)

// ErrNewKey is returned by Run when this cluster has given up its key: what runs next goes on under another one.
var ErrNewKey = errors.New("the agent goes on under a new key")

// Parts of this cluster's own that can have a problem.
const (
	problemRemoval = "removal"
	problemLeave   = "leave"
)

// Credentials ends what other clusters read with here.
type Credentials interface {
	// Revoke ends the tokens that were issued to one cluster.
	Revoke(ctx context.Context, clusterID string) error
	// Reissue replaces the credential that is swapped, which all may know.
	Reissue(ctx context.Context) error
}

// Events tells people.
type Events interface {
	Event(kind schema.GroupVersionKind, about metav1.Object, eventType, reason, message string)
}

// Options are what a membership needs. All fields are required.
type Options struct {
	ClusterID string
	Key       ed25519.PublicKey
	Record    Record
	Store     *store.Store
	Client    *kube.Client
	Registry  *informers.Registry
	// Own is this cluster's own Cluster object, or nil; Name is its name.
	Own         func() *v1alpha1.Cluster
	Name        func() string
	Credentials Credentials
	// ForgetCredential deletes our credential for a cluster.
	ForgetCredential func(ctx context.Context, clusterID string) error
	// ReplaceKey gives this cluster another key than old, unless it has one.
	ReplaceKey func(ctx context.Context, old ed25519.PublicKey) error
	// Now is the time by the clock of the local API server.
	Now      func() time.Time
	Events   Events
	Problems *health.Problems
	Log      *slog.Logger
}

// Hooks are whom a membership wakes. They are called by the goroutine that merges, among others, and must not block.
type Hooks struct {
	// Pinned is called when the key of a cluster is trusted from here on.
	Pinned func(clusterID string)
	// Detached is called when a cluster is not in the group any more, to end at once what needs no request: the watches of
	// it, and the upkeep of its copies.
	Detached func(clusterID string)
	// Changed is called when what is to be shown of a cluster's membership changed.
	Changed func(clusterID string)
}

// Membership knows who is in the group. Its methods may be called by any goroutine after Bind.
type Membership struct {
	Hooks Hooks // all are set before Run

	o       Options
	trust   *mesh.Trust
	replica *replica.Replica
	mesh    *mesh.Mesh
	ledger  ledger
	pins    pins
	work    work
	once    health.Once

	startAgain chan struct{} // closed when the key was given up
	again      sync.Once     // closes it
	recording  sync.Mutex    // from reading what removals to record to having recorded them
}

// work is what a membership does when it is asked to.
type work struct {
	pins, ends, departs *loop.Task
	orders              *loop.Loop[string] // names of Cluster objects on which a removal may be ordered
	tells               *loop.Loop[string] // members to be told of removals
}

// pins is the record of what is trusted.
type pins struct {
	recording  sync.Mutex  // from reading the pins to having recorded them
	forgetting atomic.Bool // the group that this cluster left has something here still
}

// New returns the membership as it was recorded. Bind comes next.
func New(o Options) *Membership {
	m := &Membership{o: o, startAgain: make(chan struct{})}
	ignore := func(string) {}
	m.Hooks = Hooks{Pinned: ignore, Detached: ignore, Changed: ignore} // until there is somebody to wake
	m.work = work{
		pins:    loop.NewTask("pins", o.Log, loop.Unhurried(m.recordPins)),
		ends:    loop.NewTask("removals", o.Log, loop.Unhurried(m.carryOut)),
		departs: loop.NewTask("end of the membership", o.Log, m.depart),
		orders:  loop.New("removal orders", o.Log, m.orderRemoval),
		tells:   loop.New("tells", o.Log, m.tellMember),
	}
	m.trust = mesh.NewTrust(mesh.Pin{ClusterID: o.ClusterID, PublicKey: o.Key}, m.pinned)
	for _, r := range o.Record.removals {
		m.ledger.take(r)
		m.trust.Remove(r.ClusterID, r.PublicKey)
	}
	m.ledger.depart(o.Record.departed)
	for _, p := range o.Record.pins {
		if err := m.restorePin(p); err != nil {
			o.Log.Error("a recorded pin is refused", "cluster", p.ClusterID, "error", err)
		}
	}
	return m
}

// Bind gives the membership what it was needed for to make: the replica, whose option Removed is Removed and whose option
// Removals is Removals, and the mesh, whose option Farewell is Farewell. It is called before anything is merged.
func (m *Membership) Bind(replica *replica.Replica, mesh *mesh.Mesh) {
	m.replica, m.mesh = replica, mesh
}

// Trust is the table of pins.
func (m *Membership) Trust() *mesh.Trust { return m.trust }

// Methods are what members call: Tell hands over a removal, and is answered when it is merged.
func (m *Membership) Methods() map[string]mesh.Method {
	return map[string]mesh.Method{
		methodTell: {Serve: func(_ context.Context, peer string, message []byte) ([]byte, error) {
			return nil, m.mesh.Merge(peer, message)
		}},
	}
}

// methodTell is part of the wire.
const methodTell = "Tell"

// Run carries out removals, and leaves the group when a person asks for that, until ctx ends. It goes on with what an
// earlier start did not finish. It returns ErrNewKey when this cluster's key was given up.
func (m *Membership) Run(ctx context.Context) error {
	m.resume()
	m.work.pins.Again()
	group, ctx := errgroup.WithContext(ctx)
	for _, task := range []*loop.Task{m.work.pins, m.work.ends, m.work.departs} {
		group.Go(func() error { return task.Run(ctx) })
	}
	group.Go(func() error { return m.work.orders.Run(ctx, 1) })
	group.Go(func() error { return m.work.tells.Run(ctx, 8) })
	group.Go(func() error {
		select {
		case <-ctx.Done():
			return nil
		case <-m.startAgain:
			return ErrNewKey
		}
	})
	return group.Wait()
}

// LookAtOrders hears what a person may ask for by annotation on a Cluster object.
func (m *Membership) LookAtOrders(name string) { m.work.orders.Add(name) }

// MemberAlive tells a member what it may have missed.
func (m *Membership) MemberAlive(clusterID string) { m.work.tells.Add(clusterID) }

// IsPinned says that a cluster's key is trusted.
func (m *Membership) IsPinned(clusterID string) bool {
	_, pinned := m.trust.Key(clusterID)
	return pinned
}

// Members are the clusterIDs of all other clusters whose key is trusted.
func (m *Membership) Members() []string {
	pins := m.trust.Pins()
	out := make([]string, 0, len(pins))
	for _, p := range pins {
		out = append(out, p.ClusterID)
	}
	return out
}

// Gone says that a cluster is not in the group any more: it left, was removed, or this cluster left the group that it
// is in; and was not admitted again since.
func (m *Membership) Gone(clusterID string) bool {
	return clusterID != m.o.ClusterID && m.ledger.mentions(clusterID) && !m.IsPinned(clusterID)
}

// Removals are those that are held.
func (m *Membership) Removals() []replica.Removal {
	known := m.ledger.all()
	out := make([]replica.Removal, 0, len(known))
	for _, r := range known {
		out = append(out, r.Removal)
	}
	return out
}

// Farewell is what the owner of a removed key is told: its removal, or nil.
func (m *Membership) Farewell(key ed25519.PublicKey) []byte {
	if r, ok := m.ledger.ofKey(key); ok {
		return r.Message()
	}
	return nil
}
