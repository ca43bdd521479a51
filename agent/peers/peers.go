// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"

	"github.com/roster-mesh/roster/agent/apiconn"
	"github.com/roster-mesh/roster/agent/directory"
	"github.com/roster-mesh/roster/agent/loop"
	"github.com/roster-mesh/roster/agent/store"
	"github.com/roster-mesh/roster/kube"
	"github.com/roster-mesh/roster/kube/history"
	"github.com/roster-mesh/roster/syncrules/engine"
)

// Options are all needed, but for Positions.
type Options struct {
	ClusterID   string // of this cluster
	Namespace   string // the agent's own, where people paste credentials
	NetworkName string // of the endpoints that can be reached from here; "" for those without one
	Client      *kube.Client
	Store       *store.Store
	Directory   *directory.Directory
	// Ask asks a peer's agent to issue a credential, a kubeconfig, to this cluster; nil when that agent is not there. After
	// an error, too, other places are looked at.
	Ask func(ctx context.Context, clusterID string) ([]byte, error)
	// Pace limits the requests of a connection that is made from a configuration.
	Pace  func(*rest.Config)
	Meter *apiconn.Meter
	// Now is the time at the local API server.
	Now func() time.Time
	// Positions are what ReadPositions returned.
	Positions map[string][]byte
	Log       *slog.Logger
}

// Hooks are told of what changed about the cluster of that ID. They must not block.
type Hooks struct {
	Access         func(id string) // Peer.State
	Connection     func(id string) // Peer.Source and Peer.Client
	CredentialKept func(id string) // whether the credential in use was issued to us: CredentialRef
}

// Peers is safe for use by any goroutine.
type Peers struct {
	Hooks Hooks // all are set before Run

	options Options
	added   workqueue.TypedInterface[string] // those that Run has to start
	record  *loop.Task                       // records the positions

	mu         sync.Mutex
	known      map[string]*tracked
	past       map[string][]byte // notes of positions that an earlier agent recorded, of clusters not yet read from
	unrecorded bool              // there is news of positions
}

// tracked is what is remembered of one cluster while the agent runs. All but wake is guarded by Peers.mu.
type tracked struct {
	wake       chan struct{} // something that its link depends on changed
	running    bool          // there is a link
	state      apiconn.AccessState
	issued     bool // the credential in use was issued to us by the peer's agent, and is kept in the private namespace
	connection *connection
	expires    time.Time // of the credential in use; zero for not known, or none in use

	positions *history.Positions // outlive the connections; nil where it was not read from, or was forgotten
}

// Peer is what is known of one cluster at one moment.
type Peer struct {
	State  apiconn.AccessState
	Issued bool          // the credential in use was issued to us by the cluster's own agent
	Source engine.Source // watches its API server; nil while there is no connection
	Client *kube.Client  // of the same connection
}

// New connects to nobody before Run.
func New(o Options) *Peers {
	p := &Peers{options: o, added: workqueue.NewTyped[string](), known: map[string]*tracked{}, past: o.Positions}
	p.record = loop.NewTask("record of how far peers are", o.Log, loop.Unhurried(p.recordPositions))
	return p
}

// Run blocks until ctx ends and every link has ended.
func (p *Peers) Run(ctx context.Context) error {
	stop := context.AfterFunc(ctx, p.added.ShutDown)
	defer stop()
	group, ctx := errgroup.WithContext(ctx)
	p.record.AgainAfter(positionsFirst)
	group.Go(func() error { return p.record.Run(ctx) })
	for {
		id, shutdown := p.added.Get()
		if shutdown {
			return group.Wait()
		}
		p.added.Done(id)
		group.Go(func() error {
			p.runLink(ctx, id)
			return nil
		})
	}
}

// Changed makes the link to a cluster look again at what it depends on; for a cluster that is new here it is started.
func (p *Peers) Changed(id string) {
	if id == p.options.ClusterID {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.trackedLocked(id)
	if !t.running {
		if !p.options.Directory.Listed(id) {
			return
		}
		t.running = true
		p.added.Add(id)
	}
	select {
	case t.wake <- struct{}{}:
	default: // it will look anyway
	}
}

// ended says that a link is about to end because its cluster is not listed any more; false when that is again.
func (p *Peers) ended(id string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.trackedLocked(id)
	t.running = p.options.Directory.Listed(id)
	return !t.running
}

// Look returns what is known of a cluster now.
func (p *Peers) Look(id string) Peer {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.trackedLocked(id)
	out := Peer{State: t.state, Issued: t.issued}
	if t.connection != nil {
		out.Source, out.Client = t.connection, t.connection.client
	}
	return out
}

// Detach is for a cluster that is gone from the group: its link ends at once, and where the credential for it is kept is
// not told any more.
func (p *Peers) Detach(id string) {
	p.set(id, func(t *tracked) { t.issued = false })
	p.Changed(id)
}

// Count is how many clusters are reached in which way, and when the first credential in use expires, zero for not known.
func (p *Peers) Count() (counts map[apiconn.Access]int, first time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	counts = map[apiconn.Access]int{}
	for _, t := range p.known {
		if !t.running {
			continue
		}
		counts[t.state.Access]++
		if e := t.expires; !e.IsZero() && (first.IsZero() || e.Before(first)) {
			first = e
		}
	}
	return counts, first
}

// trackedLocked finds or makes what is remembered of a cluster.
func (p *Peers) trackedLocked(id string) *tracked {
	found, ok := p.known[id]
	if !ok {
		found = &tracked{wake: make(chan struct{}, 1)}
		p.known[id] = found
	}
	return found
}

// set changes what is remembered of a cluster, and tells whether that was a change.
func (p *Peers) set(id string, change func(*tracked)) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.trackedLocked(id)
	before := *t
	change(t)
	return *t != before
}

// report records how access to a peer fares. The link alone calls it.
func (p *Peers) report(id string, a apiconn.Access, message string) {
	changed := p.set(id, func(t *tracked) {
		if t.state.Access != a {
			t.state.Since = time.Now()
		}
		t.state.Access, t.state.Message = a, message
	})
	if changed {
		p.Hooks.Access(id)
	}
}

// offer hands on a connection to a peer; nil takes it away.
func (p *Peers) offer(id string, c *connection) {
	changed := p.set(id, func(t *tracked) {
		if t.connection = c; c == nil {
			t.expires = time.Time{}
		}
	})
	if changed {
		p.Hooks.Connection(id)
	}
}
