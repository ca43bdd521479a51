// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"errors"
	"net"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/roster-mesh/roster/agent/address"
	"github.com/roster-mesh/roster/agent/admissions"
	"github.com/roster-mesh/roster/agent/apiconn"
	"github.com/roster-mesh/roster/agent/budget"
	"github.com/roster-mesh/roster/agent/catchup"
	"github.com/roster-mesh/roster/agent/credentials"
	"github.com/roster-mesh/roster/agent/directory"
	"github.com/roster-mesh/roster/agent/group"
	"github.com/roster-mesh/roster/agent/health"
	"github.com/roster-mesh/roster/agent/informers"
	"github.com/roster-mesh/roster/agent/membership"
	"github.com/roster-mesh/roster/agent/payload"
	"github.com/roster-mesh/roster/agent/peers"
	"github.com/roster-mesh/roster/agent/profiles"
	"github.com/roster-mesh/roster/agent/registry"
	"github.com/roster-mesh/roster/agent/renewals"
	"github.com/roster-mesh/roster/agent/restore"
	"github.com/roster-mesh/roster/agent/rivals"
	"github.com/roster-mesh/roster/agent/rules"
	"github.com/roster-mesh/roster/agent/status"
	"github.com/roster-mesh/roster/agent/stops"
	"github.com/roster-mesh/roster/kube"
	"github.com/roster-mesh/roster/kube/history"
	"github.com/roster-mesh/roster/mesh"
	"github.com/roster-mesh/roster/replica"
	"github.com/roster-mesh/roster/replica/journal"
	"github.com/roster-mesh/roster/replica/removalguard"
	"github.com/roster-mesh/roster/syncrules/engine"
	"github.com/roster-mesh/roster/syncrules/engine/quota"
)

// parts are the parts of the agent in one run: build makes them, wire connects them, run runs them. Each part gets only
// what build passes to it. Only the files of this package see this struct.
type parts struct {
	*location
	health   *health.Health
	problems *health.Problems
	metrics  *prometheus.Registry
	pages    *http.ServeMux // at the HTTP port
	events   *kube.Recorder
	registry *informers.Registry

	replica   *replica.Replica
	mesh      *mesh.Mesh
	directory *directory.Directory
	term      *journal.Term // nil without --data-dir

	gate        *restore.Gate
	own         *registry.Own
	address     *address.Address
	credentials *credentials.Credentials
	membership  *membership.Membership
	admissions  *admissions.Admissions
	peers       *peers.Peers
	rules       *rules.Rules
	publisher   *registry.Publisher
	importer    *registry.Importer
	refusals    *registry.Refusals
	catchUp     *catchup.CatchUp
	description *status.Description
	statuses    *status.Writer
	profiles    *profiles.Profiles
	renewals    *renewals.Renewals
	rivals      *rivals.Rivals

	stops stops.Stops
}

// build makes every part. To the API server it writes only what the agent cannot do without: the key, the epoch, the time
// of the start, and the Cluster object of this cluster. In a group it is called once for each term.
func (a *Agent) build(ctx context.Context, g *group.Group, term *journal.Term) (_ *parts, err error) {
	at, err := a.connect()
	if err != nil {
		return nil, err
	}
	p := &parts{location: at, health: a.health, metrics: a.newMetrics(), problems: &health.Problems{}, term: term}
	p.pages = newPages(p.metrics)
	p.stops.Push("connection to the API server", func() error { at.client.Close(); return nil })
	defer func() {
		if err != nil {
			at.report(ctx, err)
			err = errors.Join(err, p.stops.Unwind())
		}
	}()
	p.gate = restore.New(restore.Options{
		Store: at.store, ReadCRD: at.client.ReadCRD, Problem: p.problems.Reporter("history"), Log: a.log,
		Annotation: func(ctx context.Context) (string, error) { return p.own.Annotation(ctx) }, Accept: p.acceptRestore,
		EpochSeen: func() uint64 { return p.replica.OwnEpochSeen() },
	})
	at.client.Positions = history.TrustingPositions(p.gate.RolledBack)
	if err := at.resolve(ctx); err != nil {
		return nil, err
	}
	if g != nil && !g.Key().Equal(at.key) {
		return nil, group.ErrOtherKey
	}
	// The port is opened first: if it is in use the start is retried, and each try after this line would use up an epoch.
	port, err := a.openPort(ctx, g)
	if err != nil {
		return nil, err
	}
	defer func() {
		if p.mesh == nil {
			_ = port.Close()
		}
	}()
	recorded, err := p.readRecorded(ctx)
	if err != nil {
		return nil, err
	}
	p.makeLocal()
	if err := p.openReplica(ctx, g); err != nil {
		return nil, err
	}
	if err := p.makeRemote(recorded, a.meter); err != nil {
		return nil, err
	}
	if err := p.openMesh(port, g != nil); err != nil { //nolint:contextcheck // it starts nothing; Run has the context
		return nil, err
	}
	if _, err := p.own.Ensure(ctx); err != nil {
		return nil, err
	}
	p.wire()
	return p, p.gate.Resume(ctx)
}

func (p *parts) publicKey() ed25519.PublicKey { return p.key.Public().(ed25519.PublicKey) }

// makeLocal makes the parts that are about this cluster alone and need no replica.
func (p *parts) makeLocal() {
	o := p.options
	p.events = kube.NewRecorder(p.client, "roster-agent", p.log, p.clock.Now)
	p.registry = informers.New(p.client, o.Namespace, p.log)
	p.address = address.New(address.Options{
		Advertise: o.MeshAdvertise, Service: o.MeshService, Listening: func() net.Addr { return p.mesh.Addr() },
		Client: p.client, Health: p.health, Problem: p.problems.Reporter("address"), Log: p.log,
	})
	p.own = registry.NewOwn(registry.OwnOptions{
		ClusterID: p.clusterID, Key: p.publicKey(), ClusterName: o.ClusterName, Labels: o.labels(), Namespace: o.Namespace,
		ManageSecret: o.ManageSecret, Server: p.server, Client: p.client, Registry: p.registry, MeshEndpoints: p.address.MeshEndpoints, Log: p.log,
		Published: func() (*payload.Cluster, bool) { return p.directory.Published(p.clusterID) },
	})
	p.credentials = credentials.New(credentials.Options{
		Client: p.client, Issuer: kube.NewIssuer(p.client, o.Namespace, p.server, p.clusterName), Namespace: o.Namespace,
		Name: p.own.Name, ManageSecret: o.ManageSecret, LegacyToken: o.LegacyToken, Store: p.store, Clock: p.clock, Problem: p.problems.Reporter("credential"), Log: p.log,
		Disabled: func(id string) bool { return p.directory.Disabled(id) },
		Pinned:   func(from mesh.Caller) bool { return p.membership.Trust().IsPinned(from.ClusterID, from.Key) },
		Share:    func(total int, wants map[string]int) map[string]int { return p.membership.Trust().Share(total, wants) },
	})
	p.membership = membership.New(membership.Options{
		ClusterID: p.clusterID, Key: p.publicKey(), Record: p.record, Store: p.store, Client: p.client, Registry: p.registry,
		Own: p.own.Cluster, Name: p.own.Name, Credentials: p.credentials, ReplaceKey: p.identity.Replace, NextKey: p.identity.Next, Authorities: o.TrustAuthorities, Now: p.clock.Now,
		ForgetCredential: func(ctx context.Context, id string) error { return p.peers.ForgetCredential(ctx, id) },
		Branch:           func(id string) []string { return p.admissions.Branch(id) },
		Members:          func() []removalguard.Member { return p.admissions.Members() },
		Events:           p.events, Problems: p.problems, Log: p.log,
	})
	p.description = status.NewDescription(status.DescriptionOptions{Client: p.client, Version: o.Version, Log: p.log})
}

// recorded is what an earlier start recorded about other clusters, beside the membership.
type recorded struct {
	positions peers.Recorded // how far their API servers were
	scopes    []engine.Scope // where copies are
	quota     quota.Limits   // what may be written because of one cluster, after the last start
}

func (p *parts) readRecorded(ctx context.Context) (r recorded, err error) {
	if r.positions, err = peers.ReadPositions(ctx, p.store, p.log); err != nil {
		return r, err
	}
	if r.scopes, err = rules.ReadScopes(ctx, p.store, p.log); err != nil {
		return r, err
	}
	r.quota, err = p.identity.QuotaAtStart(ctx, p.clock.Now())
	return r, err
}

// makeRemote makes the parts that are about other clusters, and those that exchange data with them.
func (p *parts) makeRemote(r recorded, meter *apiconn.Meter) (err error) {
	o := p.options
	r.quota.Common = budget.NewCommon(r.quota, p.clusterID, p.admissions.Parent)
	ofStates := budget.OfRegistry(r.quota, p.clusterID, p.admissions.Parent).Part(4) // who causes many holds up no Cluster and no rule
	p.directory = &directory.Directory{Registry: p.registry, Replica: p.replica, Gone: p.membership.Gone, Pinned: p.membership.IsPinned, PrivateNamespace: p.store.Namespace(), Swapped: p.membership.Trust().Swapped}
	p.peers = peers.New(peers.Options{
		ClusterID: p.clusterID, Namespace: o.Namespace, NetworkName: o.NetworkName, Client: p.client, Store: p.store, Directory: p.directory,
		Ask: p.askForCredential, Share: p.membership.Trust().Share, Pace: o.pace, Meter: meter, Now: p.clock.Now, Positions: r.positions, Log: p.log,
	})
	p.refusals = registry.NewRefusals(p.log)
	p.catchUp = catchup.New(catchup.Options{
		Alive: func(id string) bool { return p.mesh.Member(id).State == mesh.Alive }, Log: p.log,
		Pull: func(ctx context.Context, id string) error { return p.mesh.Pull(ctx, id) },
	})
	p.rules, err = rules.New(rules.Options{
		ClusterID: p.clusterID, Namespace: o.Namespace, Consent: o.consent(), Accept: o.accept(), Edge: p.membership.Trust().IsEdge, Workers: o.Workers, GuardLive: o.GuardLive,
		Client: p.client, Store: p.store, Registry: p.registry, Directory: p.directory, Replica: p.replica,
		Own: p.own.Cluster, Frozen: p.gate.Frozen, Peer: p.connection, Events: p.events, Now: p.clock.Now,
		Share: p.membership.Trust().Share, Parent: p.admissions.Parent, Scopes: r.scopes, Quota: r.quota, StatusQuota: ofStates, Log: p.log, Metrics: p.metrics,
	})
	if err != nil {
		return err
	}
	p.importer = registry.NewImporter(registry.ImporterOptions{
		ClusterID: p.clusterID, Client: p.client, Registry: p.registry, Replica: p.replica, Key: p.membership.Trust().Key, Recorded: p.membership.Recorded, Gone: p.membership.Gone, Accepts: p.rules.Accepts,
		CredentialRef: p.peers.CredentialRef, Kick: func(id string) { p.mesh.RetryNow(id) }, Parent: p.admissions.Parent, Slowed: func() { p.statuses.Enqueue(p.clusterID) },
		Rules: p.rules, Refusals: p.refusals, Quota: budget.OfRegistry(r.quota, p.clusterID, p.admissions.Parent), Log: p.log,
	})
	p.publisher = registry.NewPublisher(registry.PublisherOptions{
		ClusterID: p.clusterID, CoreResourceSource: o.CoreResourceSource, Tombstones: o.Tombstones, Own: p.own, Registry: p.registry,
		Replica: p.replica, Gate: p.gate, Rules: p.rules, Admissions: p.admissions, CheckRequests: p.membership.CheckRequests, Problems: p.problems, Log: p.log,
		Epochs:    registry.Epochs{Open: p.identity.OpenEpoch, MayReopen: p.gate.MayReopen, Reopened: p.gate.Reopened, Freeze: p.gate.Freeze},
		Broadcast: func(messages ...[]byte) { p.mesh.Broadcast(messages...) },
	})
	p.statuses = status.NewWriter(status.Options{ClusterID: p.clusterID, Client: p.client, Registry: p.registry, View: p.view, Events: p.events, Quota: ofStates, Log: p.log})
	p.profiles = profiles.New(profiles.Options{
		Flags: o.Publish, ClusterID: p.clusterID, Own: o.Namespace, Network: o.NetworkName, Client: p.client, Registry: p.registry, Directory: p.directory, CredentialRef: p.peers.CredentialRef,
		Frozen: p.gate.Frozen, Events: p.events, Problem: p.problems.Reporter("profiles"), Now: p.clock.Now, Log: p.log,
	})
	p.renewals = renewals.New(renewals.Options{
		Namespaces: o.RenewNamespaces, ClusterID: p.clusterID, Client: p.client, Registry: p.registry, Gone: p.membership.Gone, Proven: p.peers.Proven,
		Access: func(id string) (apiconn.Access, bool) { now := p.peers.Peer(id); return now.State.Access, now.Issued },
		Events: p.events, Problem: p.problems.Reporter("renewals"), Log: p.log,
	})
	p.rivals = rivals.New(rivals.Options{
		ClusterID: p.clusterID, Trust: p.membership.Trust(), Kind: p.client.Clusters().Kind(), Clusters: p.registry.ByID, Name: p.registry.Name, Events: p.events, Log: p.log,
	})
	p.registerMetrics()
	return nil
}

// run runs the parts until ctx ends or one of them fails. The order matters in one place: the informers are synced
// before anything is published as complete, and before the engine may take a rule that it does not know for deleted.
func (p *parts) run(ctx context.Context) error {
	defer func() {
		if err := p.stops.Unwind(); err != nil {
			p.log.Warn("the agent did not stop cleanly", "error", err)
		}
	}()
	tasks, ctx := errgroup.WithContext(ctx)
	tasks.Go(func() error { return p.runTerm(ctx) })
	if err := p.registry.Start(ctx, tasks, p.client, p.handlers()); err != nil {
		return cmp.Or(tasks.Wait(), err)
	}
	p.log.Info("caught up with the local API server", "cluster", p.own.Name(), "clusterID", p.clusterID, "mesh", p.address.MeshEndpoints(nil), "version", p.options.Version)
	p.gate.ProveListed(ctx)
	if !p.gate.Frozen() { // while frozen, a rule that the API server lacks may come back: the engine waits for the confirmation
		p.rules.Ready()
	}
	p.address.Await()
	for _, part := range []interface{ Run(context.Context) error }{
		p.mesh, p.gate, p.rules, p.publisher, p.importer, p.catchUp, p.statuses, p.membership, p.admissions, p.credentials, p.peers, p.description, p.address, p.events, p.profiles, p.renewals, p.rivals,
	} {
		tasks.Go(func() error { return part.Run(ctx) })
	}
	p.resync()
	p.health.Ready()
	return tasks.Wait()
}
