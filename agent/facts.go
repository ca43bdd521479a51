// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"cmp"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/roster-mesh/roster/agent/payload"
	"github.com/roster-mesh/roster/agent/rules"
	"github.com/roster-mesh/roster/agent/status"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/syncrules"
)

// This file converts what one part knows into the types of another part.

// view collects what is known of a cluster, for the status of one of its Cluster objects.
func (p *parts) view(id string, have *v1alpha1.Cluster) status.View {
	v := status.View{Now: time.Now(), Date: p.clock.Now(), Local: id == p.clusterID, Claims: len(p.registry.ByID(id)), Edge: p.membership.Trust().IsEdge(id)}
	if v.Local {
		p.viewSelf(&v)
		return v
	}
	key, pinned := p.membership.Trust().Key(id)
	v.Pinned, v.Copy = pinned, syncrules.Owner(have) == id
	v.KeyMismatch = pinned && have.Spec.Mesh != nil && len(have.Spec.Mesh.PublicKey) > 0 && !key.Equal(payload.AsKey(have.Spec.Mesh.PublicKey))
	v.Removed, v.NotAdmitted, v.AdmittedBy = p.membership.RemovedKey(have), cmp.Or(p.membership.Pending(id), p.rivals.Of(id)), p.admissions.AdmittedBy(id)
	v.Member, v.Access = p.mesh.Member(id), p.peers.Peer(id).State
	v.CaughtUp = p.catchUp.CaughtUp(id) && p.directory.Complete(id)
	if published, ok := p.directory.Published(id); ok {
		v.Describe = published.Report
	}
	return v
}

func (p *parts) viewSelf(v *status.View) {
	membership := p.membership.View()
	v.Removed, v.Left, v.OrderedRemovals, v.Confirmed = membership.Removed, membership.Left, membership.OrderedRemovals, membership.Confirmed
	v.NotAdmitted, v.NotAdmittedReason, v.Unconfirmed, v.RemovalsHeld = membership.NotAdmitted, membership.NotAdmittedReason, membership.Unconfirmed.Message, membership.Unconfirmed.Held
	if rivals := p.rivals.All(); rivals != "" && v.Removed == "" {
		v.NotAdmittedReason = cmp.Or(v.NotAdmittedReason, v1alpha1.AdmittedOtherKey)
		v.NotAdmitted = strings.TrimPrefix(v.NotAdmitted+". "+rivals, ". ")
	}
	v.Problem, v.Describe, v.Slowed = p.problems.String(), p.description.Fill, p.importer.Slowed()
	all, err := p.registry.Clusters.List(labels.Everything())
	if err != nil {
		return
	}
	v.CountPeers(all, p.clusterID)
}

// connection returns how the API server of a peer is reached, for the rules.
func (p *parts) connection(id string) rules.Connection {
	known := p.peers.Peer(id)
	return rules.Connection{Source: known.Source, Client: known.Client, Message: known.State.Message, CaughtUp: p.catchUp.CaughtUp(id)}
}
