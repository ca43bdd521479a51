// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"golang.org/x/sync/errgroup"

	"github.com/roster-mesh/roster/kube"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/mesh"
	"github.com/roster-mesh/roster/replica"
	"github.com/roster-mesh/roster/replica/journal"
	"github.com/roster-mesh/roster/syncrules/engine"
)

// Agent is one agent of one cluster. Run may be called once.
type Agent struct {
	options Options
	log     *slog.Logger
	metrics *prometheus.Registry
	meter   *requestMeter
	group   atomic.Pointer[group] // the group of agents that this one is in; nil for one that is alone
}

// New checks the options and starts nothing.
func New(o Options) (*Agent, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	a := &Agent{options: o, log: o.Log, meter: newRequestMeter()}
	a.metrics = a.newMetrics()
	return a, nil
}

// newMetrics is what does not depend on a start; each start adds its own.
func (a *Agent) newMetrics() *prometheus.Registry {
	metrics := prometheus.NewRegistry()
	metrics.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	metrics.MustRegister(a.meter.requests, newBuildInfo(a.options.Version, a.options.Commit))
	if len(a.options.GroupPeers) > 0 {
		metrics.MustRegister(newAgentsCollector(a.group.Load))
	}
	return metrics
}

// session is the agent once it knows which cluster it is in: everything that the loops share.
type session struct {
	options Options
	log     *slog.Logger

	client    *kube.Client
	private   *private
	events    *kube.Recorder
	clusterID string
	key       ed25519.PrivateKey
	server    kube.Server
	issuer    *kube.Issuer

	registry *registry // the local Clusters, rules and features, watched
	trust    *mesh.Trust
	mesh     *mesh.Mesh
	replica  *replica.Replica
	journal  *journal.Journal // nil without --data-dir, and in a group, which has it
	term     *journal.Term    // nil without --data-dir
	group    *group           // nil for an agent that is alone
	engine   *engine.Engine
	peers    *peers
	health   *health

	name     atomic.Pointer[string] // of this cluster's Cluster object
	problems problems               // what is wrong with this cluster's own part
	refusals prometheus.Counter     // what members published and could not be used
	meter    *requestMeter
	ownUntil atomic.Int64 // Unix time at which the credential expires that peers are given; 0 is not known
	restore  restore      // what the local API server says may be old
	scopes   scopes       // where the engine keeps copies
	metadata metadataCell
	address  address // where other clusters dial this one
	reports  reports
	removals removals
	passing  passing
	said     said

	definitions definitions // CRDs that the objects of this cluster were made under

	reissue    atomic.Bool   // the credential that peers are given is to be replaced
	issuing    sync.Mutex    // from issuing that credential to having written it
	startAgain chan struct{} // closed when the key was given up
	again      sync.Once     // closes it
	pinning    sync.Mutex    // from reading the pins to having recorded them
	forgetting atomic.Bool   // the group that this cluster left has something here still

	publish      *loop[replica.Key] // local objects that changed
	incoming     *loop[replica.Key] // entries that changed, copies to check
	statuses     *loop[string]      // clusterIDs whose Cluster status may have changed
	ruleStatuses *loop[string]      // rules whose report changed
	offers       *loop[string]      // clusterIDs of which the engine must be told
	hears        *loop[string]      // members to be asked for all that they published
	orderings    *loop[string]      // Cluster objects on which a removal may be ordered
	tells        *loop[string]      // members to be told of removals
	chores       *loop[chore]       // what the agent does for itself

	reopening  sync.Mutex  // from seeing an unknown epoch of this cluster to having opened one after it
	clock      issuerClock // of the local API server
	clockWrong atomic.Bool // it differs from that of this machine
	publishing sync.Mutex  // from reading an object to handing it to the replica

	refusedMu sync.Mutex
	refused   map[refusal]entryNumber // what was reported as refused last
}

// ownName is the name of this cluster's Cluster object, "" before it has one.
func (s *session) ownName() string {
	if name := s.name.Load(); name != nil {
		return *name
	}
	return ""
}

// Run is the agent: it blocks until ctx ends or something that it cannot mend goes wrong, which it returns
// as one line that says what to do.
func (a *Agent) Run(ctx context.Context) error {
	health := newHealth(http.NewServeMux(), a.metrics, a.options.Pprof)
	server, err := health.listen(ctx, a.options.HTTPListen)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return server.run(ctx) })
	if len(a.options.GroupPeers) > 0 {
		group.Go(func() error { return a.runGrouped(ctx, health) })
	} else {
		group.Go(func() error { return a.runAlone(ctx, health) })
	}
	if err := group.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// runAlone is the one agent of its cluster.
func (a *Agent) runAlone(ctx context.Context, health *health) error {
	for {
		s, err := a.begin(ctx, health, nil, nil)
		if err != nil {
			return err
		}
		if err := s.run(ctx); !errors.Is(err, errStartAgain) {
			return err
		}
		a.metrics = a.newMetrics()
		health.serve(a.metrics)
	}
}

// start finds out where the agent is and prepares every part; it writes to the API server only what the
// agent cannot be without: its key, its epoch, its Cluster object. In a group it is the session of a term.
func (a *Agent) start(ctx context.Context, health *health, g *group, term *journal.Term) (_ *session, err error) {
	s, err := a.newSession(health)
	if err != nil {
		return nil, err
	}
	s.group, s.term = g, term
	defer func() {
		if err != nil {
			s.reportStart(ctx, err)
			if g == nil { // run closes it otherwise, and the term of a group is lead's: the start may be tried again in it
				s.closeJournal()
			}
			s.client.Close()
		}
	}()
	if err := s.settle(ctx); err != nil {
		return nil, err
	}
	if g != nil && !g.key.Equal(s.key) {
		return nil, errStartAgain
	}
	if err := s.join(ctx, a.metrics); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.mesh.Close()) // run closes it otherwise
		}
	}()
	own, err := s.ensureOwnCluster(ctx)
	if err != nil {
		return nil, err
	}
	s.issuer = kube.NewIssuer(s.client, s.options.Namespace, s.server, own.Name)
	s.events = kube.NewRecorder(s.client, "roster-agent", a.log, s.clock.now)
	s.registry = newRegistry(s)
	return s, s.resumeFreeze(ctx)
}

// identify finds the key that this cluster has now, knowing which ones were removed.
func (s *session) identify(ctx context.Context, own *v1alpha1.Cluster) (err error) {
	if err := s.recall(ctx); err != nil {
		return err
	}
	recorded := recordedKey(own)
	if s.givenUp(own) {
		recorded = nil
	}
	s.key, err = s.private.identity(ctx, s.clusterID, recorded)
	return err
}

// recordedKey is the public key in a Cluster object; nil when there is none.
func recordedKey(c *v1alpha1.Cluster) []byte {
	if c == nil || c.Spec.Mesh == nil {
		return nil
	}
	return c.Spec.Mesh.PublicKey
}

// join opens the mesh port and prepares trust, replica, engine and loops. The port comes first: a start that is
// tried again because it is taken must not leave an epoch behind each time.
func (s *session) join(ctx context.Context, metrics *prometheus.Registry) error {
	port, err := s.openPort(ctx)
	if err != nil {
		return err
	}
	defer func() {
		if s.mesh == nil {
			_ = port.Close()
		}
	}()
	pins, err := s.private.pins(ctx, s.log)
	if err != nil {
		return err
	}
	scopes, err := s.private.scopes(ctx, s.log)
	if err != nil {
		return err
	}
	positions, err := s.private.positions(ctx, s.log)
	if err != nil {
		return err
	}
	s.newLoops()
	s.problems.changed = func() { s.statuses.add(s.clusterID) }
	self := mesh.Pin{ClusterID: s.clusterID, PublicKey: s.key.Public().(ed25519.PublicKey)}
	s.trust = mesh.NewTrust(self, s.pinned)
	known := s.removals.all()
	removals := make([]replica.Removal, 0, len(known))
	for _, r := range known {
		s.trust.Remove(r.ClusterID, r.PublicKey)
		removals = append(removals, r.Removal)
	}
	for _, p := range pins {
		if err := s.restorePin(p); err != nil {
			s.log.Error("a recorded pin is not taken", "cluster", p.ClusterID, "error", err)
		}
	}
	epoch, err := s.openReplica(ctx, removals)
	if err != nil {
		return err
	}
	s.peers = newPeers(s, positions)
	if s.engine, err = s.newEngine(scopes, metrics); err != nil {
		return fmt.Errorf("prepare sync rules: %w", err)
	}
	s.mesh, err = mesh.New(mesh.Options{ //nolint:contextcheck // it starts nothing; Run has the context
		Identity: mesh.Identity{ClusterID: s.clusterID, PrivateKey: s.key},
		Trust:    s.trust, State: s.replica, Listen: s.options.MeshListen, Listener: port, Origin: replica.Origin,
		Endpoints: s.endpoints, Methods: s.methods(), Farewell: s.farewell, MemberChanged: s.memberChanged,
		Log: s.log, Metrics: metrics, Quiet: s.group != nil,
	})
	if err != nil {
		return err
	}
	s.refusals = newRefusals()
	metrics.MustRegister(s.refusals, newReplicaCollector(s.replica, s.origins, epoch), newAccessCollector(s))
	return nil
}

// openPort opens the mesh port, or takes the place at that of the group.
func (s *session) openPort(ctx context.Context) (net.Listener, error) {
	if s.group != nil {
		return s.group.front.Open(), nil
	}
	port, err := mesh.TCP{}.Listen(ctx, s.options.MeshListen)
	if err != nil {
		return nil, meshListenError(s.options.MeshListen, err)
	}
	return port, nil
}

func meshListenError(address string, err error) error {
	return fmt.Errorf("--mesh-listen: cannot open the mesh port %s: %w; choose another port or stop what uses it", address, err)
}

func (s *session) newLoops() {
	s.publish = newLoop("publish", s.log, s.publishKey)
	s.incoming = newLoop("import", s.log, s.importKey)
	s.incoming.waiting = map[replica.Key]time.Time{}
	s.statuses = newLoop("cluster status", s.log, s.writeClusterStatus)
	s.ruleStatuses = newLoop("rule status", s.log, s.writeRuleStatus)
	s.offers = newLoop("offers", s.log, s.offerPeer)
	s.hears = newLoop("hears", s.log, s.hearPeer)
	s.orderings = newLoop("removals", s.log, s.orderRemoval)
	s.tells = newLoop("tells", s.log, s.tellMember)
	s.chores = newLoop("chores", s.log, s.doChore)
}

// run joins the parts. The order matters once: the local API server is read to the end before anything is
// published as complete, and before the engine may take "not yet told" for "gone".
func (s *session) run(ctx context.Context) error {
	defer s.client.Close()
	defer s.closeJournal()
	defer s.mesh.Close()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.runJournal(ctx) })
	if err := s.registry.start(ctx, group); err != nil {
		return cmp.Or(group.Wait(), err)
	}
	s.log.Info("caught up with the local API server", "cluster", s.ownName(), "clusterID", s.clusterID, "mesh", s.meshEndpoints(nil), "version", s.options.Version)
	s.proveListed(ctx)
	if s.restore.isFrozen() {
		s.sayFrozen() // rules that the API server lacks are not gone: nothing is decided before the confirmation
	} else {
		s.engine.Ready()
	}
	group.Go(func() error { return s.mesh.Run(ctx) })
	group.Go(func() error { return s.engine.Run(ctx) })
	group.Go(func() error { return s.publish.run(ctx, 1) })
	group.Go(func() error { return s.incoming.run(ctx, 4) })
	group.Go(func() error { return s.statuses.run(ctx, 2) })
	group.Go(func() error { return s.ruleStatuses.run(ctx, 2) })
	group.Go(func() error { return s.offers.run(ctx, 4) })
	group.Go(func() error { return s.hears.run(ctx, 8) })
	group.Go(func() error { return s.orderings.run(ctx, 1) })
	group.Go(func() error { return s.tells.run(ctx, 8) })
	group.Go(func() error { return s.chores.run(ctx, 5) })
	group.Go(func() error { return s.peers.run(ctx) })
	group.Go(func() error { return s.watchNodes(ctx) })
	group.Go(func() error { return s.watchMeshService(ctx) })
	group.Go(func() error { return s.events.Run(ctx) })
	group.Go(func() error {
		select {
		case <-ctx.Done():
			return nil
		case <-s.startAgain:
			return errStartAgain
		}
	})
	s.resume()
	s.takeStock()
	s.chores.add(choreAnnounce)
	s.chores.add(choreVersion)
	s.chores.add(choreBootstrap)
	s.chores.add(chorePins)
	s.chores.addAfter(chorePositions, positionsFirst)
	if s.options.MeshService != "" {
		s.health.waitFor("the Service " + s.options.MeshService + " has not been read yet")
	}
	s.health.ready()
	return group.Wait()
}
