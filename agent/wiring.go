// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
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

// This file connects the parts: a change in one part makes another part reconcile. Nothing here decides anything, and an
// extra reconciliation changes nothing. Hooks are called from any goroutine, some with a lock of the caller held: they
// enqueue, and do nothing else. Only the end of a freeze does more, and is told with no lock held.

// wire sets the hooks of every part.
func (p *parts) wire() {
	enqueueSelf := func() { p.statuses.Enqueue(p.clusterID) }

	p.clocks.Watch(p.credentials.ClockMoved)
	p.problems.Watch(enqueueSelf)
	p.own.Renamed = p.credentials.Recheck // the Secret has the same name
	p.address.Hooks = address.Hooks{Changed: p.publisher.EnqueueOwn}
	p.description.Changed = enqueueSelf
	p.description.Nodes = p.address.NodesChanged
	p.gate.Hooks = restore.Hooks{RecheckOwn: p.publisher.EnqueueOwn, Ended: func() {
		p.rules.SettleAll()
		p.rules.Ready() // not done yet if the agent was started while frozen
		p.publisher.EnqueueAll()
		p.profiles.All()
	}}
	p.catchUp.Done = func(id string) {
		p.statuses.Enqueue(id)
		p.rules.PeerChanged(id)
	}
	p.membership.Hooks = membership.Hooks{
		Changed: p.statuses.Enqueue,
		Pinned: func(id string) {
			p.admissions.Pinned(id)
			p.rivals.Changed()
			p.publisher.EnqueueAdmission(id)
			p.statuses.Enqueue(id)
			p.rules.PeerChanged(id) // it may have been removed before
		},
		Recorded: func(id string) { p.importer.Enqueue(payload.ClusterKey(id)) },
		Detached: func(id string) {
			p.catchUp.Forget(id)
			p.admissions.Ended()
			p.rivals.Changed()
			p.publisher.EnqueueAdmission(id)
			p.peers.Detach(id)
			p.rules.PeerChanged(id)
			p.statuses.Enqueue(id)
			enqueueSelf()
			p.importer.EnqueueRulesOf(id)
			p.profiles.Changed(id)
			p.renewals.Changed(id)
		},
	}
	p.peers.Hooks = peers.Hooks{
		Access: func(id string) {
			p.statuses.Enqueue(id)
			p.renewals.Changed(id)
		},
		Connection: func(id string) {
			p.rules.PeerChanged(id)
			p.renewals.Changed(id)
		},
		CredentialKept: func(id string) { // the local Cluster object and the profile name the Secret
			p.importer.Enqueue(payload.ClusterKey(id))
			p.profiles.Changed(id)
			p.renewals.Changed(id)
		},
	}
	p.rivals.Hooks.Shown = func(id string) { p.statuses.Enqueue(id); enqueueSelf() }
	p.rules.Hooks = rules.Hooks{Refused: p.refusals.Refuse, PeerRemoved: p.peers.ForgetPositions}
}

// handlers handle changes of objects in the local API server.
func (p *parts) handlers() informers.Handlers {
	return informers.Handlers{
		Cluster: p.clusterChanged,
		Rule: func(was, now *v1alpha1.ResourceSyncRule) {
			p.rules.RuleChanged(was, now)
			p.publisher.Enqueue(payload.RuleKey(now.Name))
			p.importer.Enqueue(payload.RuleKey(now.Name))
		},
		Feature: func(now *v1alpha1.ClusterFeature) { p.publisher.Enqueue(payload.FeatureKey(now.Name)) },
		Secret: func(now *kube.Secret) {
			for _, id := range p.registry.ByCredentialSecret(now.Namespace, now.Name) {
				if id == p.clusterID {
					p.credentials.Recheck()
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
	p.statuses.Enqueue(id)
	p.statuses.Enqueue(p.clusterID) // its status counts the peers that are synced
	p.profiles.Changed(id)
	p.renewals.Changed(id)
	if own {
		p.publisher.EnqueueOwn() // its own status is published, too
		p.rules.ClusterChanged() // and rules' templates may read it
	} else {
		p.rules.PeerChanged(id) // it may have been renamed
	}
	if was != nil && was.UID == now.UID && was.Generation == now.Generation && payload.SameMeta(was, now) {
		return // only the status changed, and nothing else depends on that
	}
	if !own {
		p.rules.AcceptChanged(id)
		p.membership.Swapped(now) // before what may be ordered on it
		p.importer.Enqueue(payload.ClusterKey(id))
		p.peers.Changed(id)
	}
	if payload.Has(now, v1alpha1.AnnotationRemove) {
		p.membership.CheckRemovalRequest(now.Name)
	}
}

// memberChanged is called by the mesh when a member's state changes.
func (p *parts) memberChanged(m mesh.Member) {
	p.statuses.Enqueue(m.ClusterID)
	p.peers.MemberChanged(m.ClusterID, m.State)
	if m.State == mesh.Alive {
		p.catchUp.Enqueue(m.ClusterID)
		p.membership.MemberAlive(m.ClusterID)
	}
}

// entriesChanged is called by the replica after a merge, with what changed.
func (p *parts) entriesChanged(changes []replica.Change) {
	for _, c := range changes {
		switch c.Key.Kind {
		case replica.KindCluster:
			p.importer.Enqueue(c.Key)
			p.statuses.Enqueue(c.Origin)
			p.peers.Changed(c.Origin)
			p.profiles.Changed(c.Origin)
			p.renewals.Changed(c.Origin)
		case replica.KindRule:
			p.importer.Enqueue(c.Key)
		case replica.KindFeature:
			p.rules.PeerChanged(c.Origin)
		case replica.KindAdmission:
			p.rivals.Changed()
			p.statuses.Enqueue(c.Key.Name)
			if c.Key.Name == p.clusterID {
				p.rules.PeerChanged(p.clusterID) // it may have become an edge, or more
			}
		default: // the origin's set as a whole changed: any of its objects may be proven deleted now
			p.statuses.Enqueue(c.Origin)
			p.rules.PeerChanged(c.Origin)
			p.importer.EnqueueRulesOf(c.Origin)
		}
	}
}

// resync reconciles everything that the replica held at the start, in case an earlier run did not get to it.
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
		p.statuses.Enqueue(id)
	}
}
