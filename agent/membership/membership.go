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
	"github.com/roster-mesh/roster/agent/pinned"
	"github.com/roster-mesh/roster/agent/removals"
	"github.com/roster-mesh/roster/agent/store"
	"github.com/roster-mesh/roster/kube"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/mesh"
	"github.com/roster-mesh/roster/mesh/trust"
	"github.com/roster-mesh/roster/replica"
	"github.com/roster-mesh/roster/replica/removalguard"
)

// ErrNewKey is returned by Run when this cluster has given up its key. The agent must start again with the new one.
var ErrNewKey = errors.New("the agent goes on under a new key")

// Names of parts in Options.Problems.
const (
	problemRemoval = "removal"
	problemLeave   = "leave"
)

// Credentials revokes the credentials with which other clusters read this one.
type Credentials interface {
	// Revoke ends the tokens that were issued to one cluster.
	Revoke(ctx context.Context, clusterID string) error
	// Reissue replaces the bootstrap credential, which every former member may know.
	Reissue(ctx context.Context) error
}

// Events records Kubernetes events. It does not block.
type Events interface {
	Event(kind schema.GroupVersionKind, about metav1.Object, eventType, reason, message string)
}

// Options are the options of New. All fields are required but Authorities.
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
	// ForgetCredential deletes the credential with which this cluster reads another one.
	ForgetCredential func(ctx context.Context, clusterID string) error
	// Authorities are the members that may admit a cluster that was removed from the group: see trust.ParseName.
	Authorities []string
	// Members lists who admitted whom, for the guard.
	Members func() []removalguard.Member
	// Branch lists the members that no path of admissions leads to without one of them.
	Branch func(clusterID string) []string
	// NextKey returns the public part of the key that ReplaceKey will give this cluster.
	NextKey func(ctx context.Context) (ed25519.PublicKey, error)
	// ReplaceKey gives this cluster a new key, unless its key is not old any more.
	ReplaceKey func(ctx context.Context, old ed25519.PublicKey) error
	// Now is the time by the clock of the local API server.
	Now      func() time.Time
	Events   Events
	Problems *health.Problems
	Log      *slog.Logger
}

// Hooks are called when a membership changes, among others by the goroutine that merges. They must not block.
type Hooks struct {
	// Pinned is called when the key of a cluster is pinned.
	Pinned func(clusterID string)
	// Recorded is called when Membership.Recorded is true for a cluster, after it was not.
	Recorded func(clusterID string)
	// Detached is called when a cluster is no longer in the group. It must at once stop the watches of that cluster and
	// the upkeep of its copies.
	Detached func(clusterID string)
	// Changed is called when the status of a cluster's membership has changed.
	Changed func(clusterID string)
}

type removal = removals.Removal

// Membership knows who is in the group. Its methods are safe for concurrent use after Bind.
type Membership struct {
	Hooks Hooks // all are set before Run

	o       Options
	trust   *trust.Table
	guard   *removals.Guard
	replica *replica.Replica
	mesh    *mesh.Mesh
	ledger  removals.Ledger
	pins    pins
	work    work
	once    health.Once

	keyGivenUp givenUp
	recording  sync.Mutex // held from reading the removals until they are recorded
}

// givenUp says that the key was given up.
type givenUp struct {
	done chan struct{} // closed then
	once sync.Once
}

// work are the loops and tasks of a membership.
type work struct {
	pins, swaps, carryOut, leave, again *loop.Task
	requests                            *loop.Loop[string] // names of Cluster objects that may have the annotation for a removal
	sends                               *loop.Loop[string] // members that removals are sent to
	pulls                               *loop.Loop[string] // members that may introduce a newcomer that waits
}

// pins guards the record of pins.
type pins struct {
	recording  sync.Mutex  // held from reading the pins until they are recorded
	forgetting atomic.Bool // forgetGroup has not finished
	fresh      sync.Map    // clusterIDs that were swapped with, and whose pins are not recorded yet
}

// New returns the membership that was recorded. Call Bind next.
func New(o Options) *Membership {
	m := &Membership{o: o, keyGivenUp: givenUp{done: make(chan struct{})}}
	ignore := func(string) {}
	m.Hooks = Hooks{Pinned: ignore, Recorded: ignore, Detached: ignore, Changed: ignore} // until wiring sets them
	m.work = work{
		again:    loop.NewTask("unconfirmed removals", o.Log, m.reconsider),
		pins:     loop.NewTask("pins", o.Log, loop.WithPause(m.recordPins)),
		swaps:    loop.NewTask("pins of swaps", o.Log, m.recordPins), // no member has a person do thousands
		carryOut: loop.NewTask("removals", o.Log, loop.WithPause(m.carryOut)),
		leave:    loop.NewTask("end of the membership", o.Log, m.leave),
		requests: loop.New("removal requests", o.Log, m.removeOnRequest),
		sends:    loop.New("removal delivery", o.Log, m.sendRemovals),
		pulls:    loop.New("introductions", o.Log, m.pull),
	}
	authorities, err := trust.ParseNames(o.Authorities)
	if err != nil {
		o.Log.Error("there is no authority, since one has no valid name", "error", err)
	}
	m.trust = trust.New(trust.Pin{ClusterID: o.ClusterID, PublicKey: o.Key}, trust.Options{Pinned: m.pinned, Waits: m.waits, Authorities: authorities})
	m.guard = removals.NewGuard(removals.Options{
		ClusterID: o.ClusterID, Key: o.Key, Trust: m.trust, Members: o.Members, Met: m.met,
		Refuses: func(id string) bool { return m.mesh.RemovedBy(id) },
	})
	for _, r := range o.Record.removals {
		m.ledger.Add(r)
		if m.guard.Recall(r.Removal); r.Standing.Held {
			continue
		}
		if r.Basis != "" || r.Left() && !r.UnknownKey { // an earlier version recorded no basis
			m.trust.Recall(r.ClusterID, r.PublicKey, r.Basis == pinned.Admitted)
		}
		m.trust.Remove(r.ClusterID, r.PublicKey, r.Successor, r.Left())
	}
	m.ledger.AddDeparted(o.Record.departed)
	for _, p := range o.Record.pins {
		if err := m.trust.Restore(p); err != nil {
			o.Log.Error("a recorded pin is refused", "cluster", p.ClusterID, "error", err)
		}
	}
	m.guard.Recalled()
	return m
}

// Bind sets the replica and the mesh, which both need the membership to be made: Removed and Removals are options of
// the replica, RemovalNotice is one of the mesh. Call it before anything is merged.
func (m *Membership) Bind(replica *replica.Replica, mesh *mesh.Mesh) {
	m.replica, m.mesh = replica, mesh
}

// Trust is the table of pinned keys.
func (m *Membership) Trust() *trust.Table { return m.trust }

// Methods are the methods of the mesh that members may call. Tell sends a removal; its answer says that the removal was
// merged.
func (m *Membership) Methods() map[string]mesh.Method {
	return map[string]mesh.Method{
		methodTell: {Serve: func(_ context.Context, from mesh.Caller, message []byte) ([]byte, error) {
			if err := m.mesh.Merge(from.ClusterID, message); err != nil {
				return nil, err
			}
			return m.told(from.ClusterID, message), nil
		}},
	}
}

// methodTell is the wire name of the method Tell.
const methodTell = "Tell"

// Run carries out removals, and leaves the group when a person asks for that, until ctx ends. It continues what an
// earlier run did not finish. It returns ErrNewKey when this cluster's key was given up.
func (m *Membership) Run(ctx context.Context) error {
	m.resume()
	m.work.pins.Trigger()
	group, ctx := errgroup.WithContext(ctx)
	for _, task := range []*loop.Task{m.work.pins, m.work.swaps, m.work.carryOut, m.work.leave, m.work.again} {
		group.Go(func() error { return task.Run(ctx) })
	}
	group.Go(func() error { return m.work.requests.Run(ctx, 1) })
	group.Go(func() error { return m.work.sends.Run(ctx, 8) })
	group.Go(func() error { return m.work.pulls.Run(ctx, 1) })
	group.Go(func() error {
		select {
		case <-ctx.Done():
			return nil
		case <-m.keyGivenUp.done:
			return ErrNewKey
		}
	})
	return group.Wait()
}

// CheckRemovalRequest removes the cluster of that Cluster object from the group, if an annotation on it asks for that.
func (m *Membership) CheckRemovalRequest(name string) { m.work.requests.Add(name) }

// MemberAlive sends a member the removals that it has not confirmed, and hears whom it admits.
func (m *Membership) MemberAlive(clusterID string) {
	m.work.sends.Add(clusterID)
	if m.trust.IsAuthority(clusterID) && len(m.trust.Newcomers()) > 0 {
		m.work.pulls.Add(clusterID)
	}
}

// IsPinned reports whether the key of a cluster is pinned.
func (m *Membership) IsPinned(clusterID string) bool {
	_, pinned := m.trust.Key(clusterID)
	return pinned
}

// Members are the clusterIDs of all other clusters whose key is pinned.
func (m *Membership) Members() []string {
	pins := m.trust.Pins()
	out := make([]string, 0, len(pins))
	for _, p := range pins {
		out = append(out, p.ClusterID)
	}
	return out
}

// Gone reports whether a cluster is no longer in the group: it left, it was removed, or this cluster left the group
// that it is in; and it was not admitted again.
func (m *Membership) Gone(clusterID string) bool {
	return clusterID != m.o.ClusterID && m.ledger.RemovedOrLeft(clusterID) && !m.IsPinned(clusterID)
}

// Removals are all removals that this cluster knows.
func (m *Membership) Removals() []replica.Removal {
	known := m.ledger.All()
	out := make([]replica.Removal, 0, len(known))
	for _, r := range known {
		out = append(out, r.Removal)
	}
	return out
}

// Farewell is the message that the mesh answers to the owner of a removed key: its removal, or nil.
func (m *Membership) Farewell(key ed25519.PublicKey) []byte {
	if r, ok := m.ledger.LookupKey(key); ok {
		return r.Message()
	}
	return nil
}
