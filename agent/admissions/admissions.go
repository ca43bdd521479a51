// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package admissions

import (
	"bytes"
	"cmp"
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/roster-mesh/roster/agent/loop"
	"github.com/roster-mesh/roster/agent/payload"
	"github.com/roster-mesh/roster/kube/api/admitted"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/mesh/trust"
	"github.com/roster-mesh/roster/replica"
	"github.com/roster-mesh/roster/replica/removalguard"
	"github.com/roster-mesh/roster/replica/shares"
)

// signsFrom is the SchemaVersion of the first agents that sign admissions.
const signsFrom = 8

// Replica is what admissions are read from: a [replica.Replica].
type Replica interface {
	Entries(kind replica.Kind) []replica.Entry
	Lookup(key replica.Key, origin string) (replica.Entry, bool)
	Removals() []replica.Removal
	Reshare()
}

// Admissions knows who admitted whom. It is safe for concurrent use.
type Admissions struct {
	self    string
	trust   *trust.Table
	replica Replica
	log     *slog.Logger
	vouch   *loop.Task
	look    *loop.Task
	parents atomic.Pointer[map[string]string] // the tree, when that was last looked at
}

// New returns the admissions of the cluster self. Subscribe Changed to the replica, and call Load when the replica holds what an
// earlier run held, before anything is merged.
func New(self string, t *trust.Table, r Replica, log *slog.Logger) *Admissions {
	a := &Admissions{self: self, trust: t, replica: r, log: log}
	a.vouch = loop.NewTask("admissions", log, func(context.Context) error { a.Vouch(); return nil })
	a.look = loop.NewTask("tree of admissions", log, loop.WithPause(func(context.Context) error { a.Look(); return nil }))
	return a
}

// Run has this cluster answer for members, where it must, and looks at who admitted whom, until ctx ends.
func (a *Admissions) Run(ctx context.Context) error {
	a.look.Trigger()
	group, ctx := errgroup.WithContext(ctx)
	for _, task := range []*loop.Task{a.vouch, a.look} {
		group.Go(func() error { return task.Run(ctx) })
	}
	return group.Wait()
}

// Load reads all that the replica holds.
func (a *Admissions) Load() {
	for _, kind := range [...]replica.Kind{replica.KindAdmission, replica.KindCluster} {
		for _, e := range a.replica.Entries(kind) {
			a.take(e.Key, e.Origin, e, true)
		}
	}
	for _, pin := range a.trust.Pins() {
		a.read(payload.ClusterKey(pin.ClusterID), pin.ClusterID)
	}
}

// Changed reads what was merged: what follows may be on the word of it.
func (a *Admissions) Changed(changes []replica.Change) {
	for _, c := range changes {
		switch {
		case c.Key.Kind == replica.KindAdmission, c.Key.Kind == replica.KindCluster:
			a.read(c.Key, c.Origin)
		case c.Key == replica.Key{}: // any may be gone
			for _, id := range a.trust.AdmittedBy(c.Origin) {
				a.read(payload.AdmissionKey(id), c.Origin)
			}
		}
	}
}

// read takes what an origin says under a key, which may be nothing. Another goroutine may merge something newer meanwhile, and be
// the first to take it: so what was taken is compared with what is held then, and the last one that takes has taken the newest.
func (a *Admissions) read(key replica.Key, origin string) {
	for {
		e, held := a.replica.Lookup(key, origin)
		a.take(key, origin, e, held)
		now, still := a.replica.Lookup(key, origin)
		if still == held && now.Epoch == e.Epoch && now.Sequence == e.Sequence && bytes.Equal(now.Payload, e.Payload) {
			return
		}
	}
}

func (a *Admissions) take(key replica.Key, origin string, e replica.Entry, held bool) {
	if origin == a.self {
		return
	}
	if key.Kind == replica.KindCluster { // until it says that its agent signs none, it vouches for nobody
		published, err := payload.DecodeCluster(origin, e.Payload)
		a.trust.Signs(origin, !held || err == nil && published.SchemaVersion >= signsFrom)
		return
	}
	a.look.Trigger()
	admission, err := payload.DecodeAdmission(origin, key.Name, e.Payload)
	if !held || err != nil || e.Status != replica.Live {
		a.log.Debug("an admission does not count", "author", origin, "clusterID", key.Name, "error", err)
		a.trust.Withdraw(origin, key.Name)
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
	a.read(payload.ClusterKey(clusterID), clusterID)
	a.look.Trigger()
	if a.trust.Swapped(clusterID) {
		a.vouch.Trigger()
	}
}

// Ended is told when a cluster is no member any more.
func (a *Admissions) Ended() { a.look.Trigger() }

// Look looks at who admitted whom, and has the replica, and the room for pins, shared by that.
func (a *Admissions) Look() {
	parents := map[string]string{}
	for _, m := range a.Members() {
		parents[m.ClusterID] = cmp.Or(m.Parent, a.self)
	}
	if was := a.parents.Swap(&parents); was == nil || !maps.Equal(*was, parents) {
		a.trust.Arrange(parents)
		a.replica.Reshare()
	}
}

// Parent is the nearest cluster, a member or one that has ended, that every path from here to a cluster leads through; "" where nobody
// knows. Of one that came since that was
// last looked at it is the member on whose word it was pinned. It does not block.
func (a *Admissions) Parent(clusterID string) string {
	if parents := a.parents.Load(); parents != nil {
		if parent, ok := (*parents)[clusterID]; ok {
			return strings.TrimPrefix(parent, trust.Lost)
		}
	}
	if introducer, pinned := a.trust.Introducer(clusterID); pinned {
		return cmp.Or(introducer, a.self)
	}
	return ""
}

// Share shares something among clusters by who admitted them, as package shares has it.
func (a *Admissions) Share(total int, wants map[string]int) map[string]int {
	return shares.Of(total, a.self, a.Parent, wants)
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
	orphans := slices.DeleteFunc(ids(a.tree(func(w trust.Word) bool { return w.Signed }).Orphans()), func(id string) bool {
		from := introducers[id]
		return !a.trust.IsPeer(from) && len(by[from]) > 0 && !slices.Contains(by[from], id)
	})
	if len(orphans) > 0 {
		a.trust.Vouch(orphans)
	}
}

// AdmittedBy lists who admitted a member, as status.admittedBy shows it.
func (a *Admissions) AdmittedBy(clusterID string) (by []string) {
	for _, w := range a.trust.Words(clusterID) {
		if text := v1alpha1.AdmittedBy(w.Author, w.Via); !slices.Contains(by, text) {
			by = append(by, text)
		}
	}
	return by
}

// Branch lists the members that no path leads to without the head, which may have ended.
func (a *Admissions) Branch(head string) []string {
	branch := a.tree(func(trust.Word) bool { return true }).Branch(head)
	return slices.DeleteFunc(branch, func(id string) bool { return !a.trust.IsPeer(id) })
}

// Members lists who admitted whom, each after its parent, for the guard against removals: with those that have ended, and led to others.
func (a *Admissions) Members() []removalguard.Member {
	all := []removalguard.Member{{ClusterID: trust.Lost, Ended: true}}
	for _, c := range a.tree(func(trust.Word) bool { return true }).Clusters() {
		if c.ClusterID != trust.Lost {
			all = append(all, removalguard.Member{ClusterID: c.ClusterID, Parent: cmp.Or(c.Parent, trust.Lost), Ended: !a.trust.IsPeer(c.ClusterID)})
		}
	}
	return all
}

func ids(clusters []admitted.Cluster) (ids []string) {
	for _, c := range clusters {
		ids = append(ids, c.ClusterID)
	}
	return ids
}

// tree is that of the words that count. Clusters that have ended are in it, below whom they were, where they led to members: else
// what one invents would come out from below it when it leaves, to be as many equals of those that it was an equal of.
func (a *Admissions) tree(counts func(trust.Word) bool) admitted.Tree {
	by := map[string][]string{}
	say := func(id, text string) {
		if !slices.Contains(by[id], text) {
			by[id] = append(by[id], text)
		}
	}
	for _, pin := range a.trust.Pins() {
		if by[pin.ClusterID] == nil {
			by[pin.ClusterID] = []string{} // which stays where nothing counts
		}
		for _, w := range a.trust.Words(pin.ClusterID) {
			if !counts(w) {
				continue
			}
			text := v1alpha1.AdmittedBy(w.Author, w.Via)
			for _, ended := range w.Ended() {
				if ended == trust.Lost {
					text = a.self
				}
				say(ended, text)
				text = ended
			}
			say(pin.ClusterID, text)
		}
	}
	return admitted.NewTree(a.self, by)
}
