// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package admissions

import (
	"log/slog"
	"slices"

	"github.com/roster-mesh/roster/agent/payload"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/mesh/trust"
	"github.com/roster-mesh/roster/replica"
	"github.com/roster-mesh/roster/replica/removalguard"
)

// Admissions knows who admitted whom. It holds nothing itself, and is safe for concurrent use.
type Admissions struct {
	self    string
	trust   *trust.Table
	replica *replica.Replica
	log     *slog.Logger
}

// New returns the admissions of the cluster self. Subscribe Changed to the replica, and call Load when the replica holds what an
// earlier run held, before anything is merged.
func New(self string, t *trust.Table, r *replica.Replica, log *slog.Logger) *Admissions {
	return &Admissions{self, t, r, log}
}

// Load reads all that the replica holds.
func (a *Admissions) Load() {
	for _, e := range a.replica.Entries(replica.KindAdmission) {
		a.take(e)
	}
}

// Changed reads what was merged: what follows may be on the word of it.
func (a *Admissions) Changed(changes []replica.Change) {
	for _, c := range changes {
		switch {
		case c.Key.Kind == replica.KindAdmission:
			a.read(c.Key.Name, c.Origin)
		case c.Key == replica.Key{}: // any may be gone
			for _, id := range a.trust.AdmittedBy(c.Origin) {
				a.read(id, c.Origin)
			}
		}
	}
}

// read takes what an origin says of a cluster, which may be nothing.
func (a *Admissions) read(clusterID, origin string) {
	if e, ok := a.replica.Lookup(payload.AdmissionKey(clusterID), origin); ok {
		a.take(e)
		return
	}
	a.trust.Withdraw(origin, clusterID)
}

func (a *Admissions) take(e replica.Entry) {
	if e.Origin == a.self {
		return
	}
	admission, err := payload.DecodeAdmission(e.Origin, e.Key.Name, e.Payload)
	if err != nil || e.Status != replica.Live {
		a.log.Debug("an admission does not count", "author", e.Origin, "clusterID", e.Key.Name, "error", err)
		a.trust.Withdraw(e.Origin, e.Key.Name)
		return
	}
	a.trust.Admit(admission)
}

// Subjects lists the clusters that this one admits.
func (a *Admissions) Subjects() (ids []string) {
	for _, own := range a.trust.Own() {
		ids = append(ids, own.ClusterID)
	}
	return ids
}

// Payload is what this cluster publishes of a cluster that it admits; nil if it does not.
func (a *Admissions) Payload(clusterID string) ([]byte, error) {
	own, ok := a.trust.OwnOf(clusterID)
	if !ok {
		return nil, nil
	}
	return payload.EncodeAdmission(own)
}

// Pinned is told of every cluster that is pinned. One that a person here admitted learns of the other members by admissions: this
// cluster answers for those that none leads to.
func (a *Admissions) Pinned(clusterID string) {
	if a.trust.Swapped(clusterID) {
		a.Vouch()
	}
}

// Vouch has this cluster answer for the members that no admission leads to. Where another member has removed who brought them,
// it was for that one to keep them, which it does by admissions; only for itself it could not.
func (a *Admissions) Vouch() {
	by := map[string][]string{}
	for _, r := range a.replica.Removals() {
		if !r.Left() && !a.trust.Removed(r.ByKey) {
			by[r.ClusterID] = append(by[r.ClusterID], r.By)
		}
	}
	introducers := map[string]string{}
	for _, pin := range a.trust.Pins() {
		introducers[pin.ClusterID] = pin.Introducer
	}
	var ids []string
	for _, c := range a.tree(true).Orphans() {
		from := introducers[c.ClusterID]
		if a.trust.IsPeer(from) || len(by[from]) == 0 || slices.Contains(by[from], c.ClusterID) {
			ids = append(ids, c.ClusterID)
		}
	}
	if len(ids) > 0 {
		a.trust.Vouch(ids)
	}
}

// AdmittedBy lists who admitted a member, as status.admittedBy shows it.
func (a *Admissions) AdmittedBy(clusterID string) []string { return a.by(clusterID, false) }

func (a *Admissions) by(clusterID string, signed bool) (by []string) {
	for _, w := range a.trust.Words(clusterID) {
		if w.Signed || !signed {
			by = append(by, v1alpha1.AdmittedBy(w.Author, w.Via))
		}
	}
	return by
}

// Branch lists the members that no path leads to without the head.
func (a *Admissions) Branch(head string) []string { return a.tree(false).Branch(head) }

// Members lists who admitted whom, the nearest first, for the guard against removals.
func (a *Admissions) Members() (all []removalguard.Member) {
	for _, c := range a.tree(false).Clusters() {
		all = append(all, removalguard.Member{ClusterID: c.ClusterID, Parent: c.Parent})
	}
	return all
}

func (a *Admissions) tree(signed bool) v1alpha1.AdmissionTree {
	by := map[string][]string{}
	for _, pin := range a.trust.Pins() {
		by[pin.ClusterID] = a.by(pin.ClusterID, signed)
	}
	return v1alpha1.NewAdmissionTree(a.self, by)
}
