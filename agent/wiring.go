// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"

	"github.com/roster-mesh/roster/agent/address"
	"github.com/roster-mesh/roster/agent/informers"
	"github.com/roster-mesh/roster/agent/membership"
	"github.com/roster-mesh/roster/agent/payload"
	"github.com/roster-mesh/roster/agent/peers"
	"github.com/roster-mesh/roster/agent/restore"
	"github.com/roster-mesh/roster/agent/rules"
	"github.com/roster-mesh/roster/kube"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/mesh"
	"github.com/roster-mesh/roster/replica"
)

// Who wakes whom. Nothing here decides anything: each line says whose change is a reason for whom to look again, and to
// look again is cheap and changes nothing by itself. Hooks are called from any goroutine, some with a lock of the caller held:
// they note that there is something to do, and do nothing themselves.

// wire gives every part its hooks.
func (p *parts) wire() {
	lookAtSelf := func() { p.statuses.Look(p.clusterID) }

	p.clocks.Watch(p.credentials.ClockMoved)
	p.problems.Watch(lookAtSelf)
	p.own.Renamed = p.credentials.Look // the Secret has the same name
	p.address.Hooks = address.Hooks{Changed: p.publisher.LookAtOwn}
	p.description.Changed = lookAtSelf
	p.description.Nodes = p.address.NodesChanged
	p.gate.Hooks = restore.Hooks{Look: p.publisher.LookAtOwn, Ended: func() {
		p.rules.SettleAll()
		p.rules.Ready() // where the agent was started meanwhile, they were not
		p.publisher.LookAtAll()
	}}
	p.catchUp.Done = func(id string) {
		p.statuses.Look(id)
		p.rules.PeerChanged(id)
	}
	p.membership.Hooks = membership.Hooks{
		Changed: p.statuses.Look,
		Pinned: func(id string) {
			p.statuses.Look(id)
			p.rules.PeerChanged(id) // it may have been gone
		},
		Detached: func(id string) {
			p.catchUp.Forget(id)
			p.peers.Detach(id)
			p.rules.PeerChanged(id)
			p.statuses.Look(id)
			lookAtSelf()
			p.importer.LookAtRulesOf(id)
		},
	}
	p.peers.Hooks = peers.Hooks{
		Access:     p.statuses.Look,
		Connection: p.rules.PeerChanged,
		CredentialKept: func(id string) { // the local Cluster object says where the credential is
			p.importer.Look(payload.ClusterKey(id))
		},
	}
	p.rules.Hooks = rules.Hooks{Refused: p.refusals.Refuse, Forget: p.peers.ForgetPositions}
}

// handlers are who looks at what changed at the local API server.
func (p *parts) handlers() informers.Handlers {
	return informers.Handlers{
		Cluster: p.clusterChanged,
		Rule: func(was, now *v1alpha1.ResourceSyncRule) {
			p.rules.RuleChanged(was, now)
			p.publisher.Look(payload.RuleKey(now.Name))
			p.importer.Look(payload.RuleKey(now.Name))
		},
		Feature: func(now *v1alpha1.ClusterFeature) { p.publisher.Look(payload.FeatureKey(now.Name)) },
		Secret: func(now *kube.Secret) {
			for _, id := range p.registry.NamingSecret(now.Namespace, now.Name) {
				if id == p.clusterID {
					p.credentials.Look()
				} else {
					p.peers.Changed(id)
				}
			}
		},
	}
}

func (p *parts) clusterChanged(was, now *v1alpha1.Cluster) {
	id := string(now.Spec.ClusterID)
	own := id == p.clusterID
	p.statuses.Look(id)
	p.statuses.Look(p.clusterID) // it counts the peers that are synced
	if own {
		p.publisher.LookAtOwn()  // what the cluster reports of itself is published too
		p.rules.ClusterChanged() // and rules' templates may read it
	} else {
		p.rules.PeerChanged(id) // its name may be another
	}
	if was != nil && was.UID == now.UID && was.Generation == now.Generation && payload.SameMeta(was, now) {
		return // its status alone: nothing else depends on that
	}
	if !own {
		p.membership.Swapped(now) // before what may be ordered on it
		p.importer.Look(payload.ClusterKey(id))
		p.peers.Changed(id)
	}
	if payload.Has(now, v1alpha1.AnnotationRemove) {
		p.membership.LookAtOrders(now.Name)
	}
}

// memberChanged is called by the mesh when a member's state changes.
func (p *parts) memberChanged(m mesh.Member) {
	p.statuses.Look(m.ClusterID)
	if m.State == mesh.Alive {
		p.catchUp.Ask(m.ClusterID)
		p.peers.Changed(m.ClusterID)
		p.membership.MemberAlive(m.ClusterID)
	}
}

// entriesChanged is called by the replica for what a merge changed.
func (p *parts) entriesChanged(changes []replica.Change) {
	for _, c := range changes {
		switch c.Key.Kind {
		case replica.KindCluster:
			p.importer.Look(c.Key)
			p.statuses.Look(c.Origin)
			p.peers.Changed(c.Origin)
		case replica.KindRule:
			p.importer.Look(c.Key)
		case replica.KindFeature:
			p.rules.PeerChanged(c.Origin)
		default: // what is known of the origin's whole set changed: any of its copies may be proven gone
			p.statuses.Look(c.Origin)
			p.rules.PeerChanged(c.Origin)
			p.importer.LookAtRulesOf(c.Origin)
		}
	}
}

// resync looks at all that was held when the agent started, as if it had just come: what it was to bring about
// may not have been done.
func (p *parts) resync() {
	var changes []replica.Change
	for _, kind := range [...]replica.Kind{replica.KindCluster, replica.KindRule} {
		for _, e := range p.replica.Entries(kind) {
			if e.Origin != p.clusterID {
				changes = append(changes, replica.Change{Key: e.Key, Origin: e.Origin})
			}
		}
	}
	for _, origin := range p.replica.Origins() {
		if origin != p.clusterID {
			changes = append(changes, replica.Change{Origin: origin})
		}
	}
	p.entriesChanged(changes)
	for _, id := range p.membership.Members() { // also those of which nothing was held
		p.rules.PeerChanged(id)
		p.statuses.Look(id)
	}
}

// askForCredential asks a member's agent for a credential to read its cluster with.
func (p *parts) askForCredential(ctx context.Context, id string) ([]byte, error) {
	if state := p.mesh.Member(id).State; state != mesh.Alive && state != mesh.Suspect {
		return nil, nil
	}
	return p.mesh.Call(ctx, id, methodCredential, nil)
}
