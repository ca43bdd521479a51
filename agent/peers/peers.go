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
	"github.com/roster-mesh/roster/agent/health"
	"github.com/roster-mesh/roster/agent/loop"
	"github.com/roster-mesh/roster/agent/store"
	"github.com/roster-mesh/roster/kube"
	"github.com/roster-mesh/roster/kube/history"
	"github.com/roster-mesh/roster/mesh/pace"
	"github.com/roster-mesh/roster/syncrules/engine"
)

// Options are the options of New. All fields but Positions are required.
type Options struct {
	ClusterID   string // of this cluster
	Namespace   string // that of the agent, where people paste credentials
	NetworkName string // clientNetwork of the endpoints that can be reached from here; "" for those without one
	Client      *kube.Client
	Store       *store.Store
	Directory   *directory.Directory
	// Ask asks a peer's agent to issue a credential, a kubeconfig, to this cluster. It returns nil if that agent is not
	// reachable. After an error, a pasted credential is tried.
	Ask func(ctx context.Context, clusterID string) ([]byte, error)
	// Share shares among clusters by who admitted them.
	Share pace.Share
	// Pace limits the request rate of a connection.
	Pace  func(*rest.Config)
	Meter *apiconn.Meter
	// Now is the time by the clock of the local API server.
	Now func() time.Time
	// Positions is the result of ReadPositions.
	Positions Recorded
	Log       *slog.Logger
}

// Hooks are called when something about a cluster has changed: the field or method in the comment. They must not block.
type Hooks struct {
	Access         func(id string) // Peer.State
	Connection     func(id string) // Peer.Source and Peer.Client
	CredentialKept func(id string) // CredentialRef and Proven
}

// Peers has the links to all other clusters. It is safe for concurrent use.
type Peers struct {
	Hooks Hooks // all are set before Run

	options Options
	added   workqueue.TypedInterface[string] // clusterIDs of links that Run starts
	record  *loop.Task                       // writes the record of positions
	// failures remembers, by clusterID, why an API server was not reached, so that it is logged once.
	failures health.Once
	claims   claims
	budgets

	mu         sync.Mutex
	known      map[string]*tracked
	recorded   Recorded // by an earlier agent: the notes until the cluster is read; its parts are record's own
	unrecorded bool     // positions changed since they were recorded
}

// tracked is what is known of one cluster. All fields but wake are guarded by Peers.mu.
type tracked struct {
	wake       chan struct{} // something that the link depends on has changed
	running    bool          // whether there is a link
	state      apiconn.AccessState
	issued     bool // the credential in use was issued by the peer's agent
	connection *connection
	kubeconfig string    // the issued credential that connection was verified with; "" for none
	narrow     bool      // the credential of connection is a swapped one, with which the registry alone can be read
	expires    time.Time // expiry of the credential in use; zero if not known, or none

	positions *history.Positions // outlive connections; nil if the cluster was not read, or was forgotten
}

// Peer is what is known of one cluster at a moment.
type Peer struct {
	State  apiconn.AccessState
	Issued bool          // the credential in use was issued by the cluster's agent
	Source engine.Source // watches its API server; nil while there is no connection, or one that reads the registry alone
	Client *kube.Client  // of the same connection
}

// New returns peers without a link. Run starts the links.
func New(o Options) *Peers {
	p := &Peers{options: o, added: workqueue.NewTyped[string](), known: map[string]*tracked{}, recorded: o.Positions, budgets: newBudgets(o.Share)}
	p.record = loop.NewTask("record of positions", o.Log, loop.WithPause(p.recordPositions))
	return p
}

// Run runs the links. It returns when ctx has ended and every link has ended.
func (p *Peers) Run(ctx context.Context) error {
	stop := context.AfterFunc(ctx, p.added.ShutDown)
	defer stop()
	group, ctx := errgroup.WithContext(ctx)
	p.record.TriggerAfter(positionsFirst)
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

// Changed wakes the link to a cluster after something that it depends on has changed. It starts the link of a new
// cluster.
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
	default: // a wake-up is pending
	}
}

// ended reports whether a link ends because its cluster is no longer listed. It returns false if the cluster is listed
// again.
func (p *Peers) ended(id string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.trackedLocked(id)
	t.running = p.options.Directory.Listed(id)
	return !t.running
}

// Peer returns what is known of a cluster now.
func (p *Peers) Peer(id string) Peer {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.trackedLocked(id)
	out := Peer{State: t.state, Issued: t.issued}
	if t.connection != nil && !t.narrow {
		out.Source, out.Client = t.connection, t.connection.client
	}
	return out
}

// Detach ends the link of a cluster that is gone from the group at once. CredentialRef returns false for it from then
// on.
func (p *Peers) Detach(id string) {
	p.set(id, func(t *tracked) { t.issued = false })
	p.Changed(id)
}

// trackedLocked returns the entry of a cluster, and makes it if there is none.
func (p *Peers) trackedLocked(id string) *tracked {
	found, ok := p.known[id]
	if !ok {
		found = &tracked{wake: make(chan struct{}, 1)}
		p.known[id] = found
	}
	return found
}

// set changes the entry of a cluster, and returns whether that was a change.
func (p *Peers) set(id string, change func(*tracked)) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.trackedLocked(id)
	before := *t
	change(t)
	return *t != before
}

// report records the access to a peer. Only its link calls it.
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

// setConnection sets the connection to a peer, nil for none, and whether its credential reads the registry alone.
func (p *Peers) setConnection(id string, c *connection, narrow bool) {
	changed := p.set(id, func(t *tracked) {
		if t.connection, t.narrow = c, narrow; c == nil {
			t.expires, t.kubeconfig = time.Time{}, ""
		}
	})
	if changed {
		p.Hooks.Connection(id)
	}
}
