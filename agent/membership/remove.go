// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roster-mesh/roster/agent/payload"
	"github.com/roster-mesh/roster/agent/pinned"
	"github.com/roster-mesh/roster/agent/removals"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/replica"
	"github.com/roster-mesh/roster/syncrules"
)

const (
	sendTimeout = 5 * time.Second
	sendRetry   = 2 * time.Second
	// recordUnknown is the delay before removals are recorded that affect nothing here.
	recordUnknown = time.Hour
)

// Removed is called by the replica for every removal that is merged, including those of this cluster. A removal of a
// key that is unknown here is kept, so that nobody can introduce that key later. It causes no request but its record,
// which is delayed, because a member can send any number of them.
func (m *Membership) Removed(r replica.Removal, pinned, first bool) {
	if r.Standing.Held {
		m.held(r)
		return
	}
	now := m.removal(r)
	if m.guard.Pending() {
		m.work.again.Trigger()
	}
	if author, ok := m.trust.Key(r.By); !r.Left() && (!ok || !author.Equal(r.ByKey)) {
		now.UnverifiedAuthor = true
	}
	held, known := m.ledger.Lookup(r.ClusterID, r.PublicKey) // a leave, which this beats
	now.UnknownKey = !pinned && !m.affectsThisCluster(r) && (!known || held.UnknownKey)
	now.Ended = now.UnknownKey
	m.ledger.Add(now)
	if now.UnknownKey {
		m.o.Log.Debug("the key of an unknown cluster was removed from the group", "clusterID", r.ClusterID, "byClusterID", r.By)
		m.work.carryOut.TriggerAfter(recordUnknown)
		return
	}
	if first {
		m.o.Log.Warn("a cluster's key was removed from the group", "cluster", r.Name, "clusterID", r.ClusterID, "by", r.ByName, "byClusterID", r.By, "left", r.Left())
	}
	m.work.carryOut.Trigger()
	if r.ClusterID == m.o.ClusterID && r.PublicKey.Equal(m.o.Key) {
		m.work.leave.Trigger()
		m.Hooks.Changed(m.o.ClusterID)
		return
	}
	if m.Gone(r.ClusterID) {
		m.Hooks.Detached(r.ClusterID)
	}
	for _, id := range now.Waiting {
		m.work.sends.Add(id)
	}
	if len(m.ledger.WaitingFor(r.ClusterID)) > 0 {
		m.work.sends.Add(r.ClusterID) // a removed cluster need not confirm
	}
}

// removal is a removal that is about to be recorded.
func (m *Membership) removal(r replica.Removal) removal {
	now := removal{Removal: r, Ordered: m.orderedHere(r), Basis: m.basis(r)}
	if now.Ordered {
		now.Waiting = m.confirmers(r)
	}
	return now
}

// basis is on what a removed key was pinned here.
func (m *Membership) basis(r replica.Removal) string {
	switch admitted, had := m.trust.Had(r.ClusterID, r.PublicKey); {
	case admitted:
		return pinned.Admitted
	case had:
		return pinned.Introduced
	}
	return ""
}

// affectsThisCluster reports whether a removal of a key that is not pinned still matters here: it was ordered here, it
// is about this cluster, or a Cluster object has that key.
func (m *Membership) affectsThisCluster(r replica.Removal) bool {
	return m.orderedHere(r) || r.ClusterID == m.o.ClusterID && r.PublicKey.Equal(m.o.Key) || slices.ContainsFunc(m.o.Registry.ByID(r.ClusterID), func(c *v1alpha1.Cluster) bool {
		return r.PublicKey.Equal(payload.AsKey(payload.RecordedKey(c)))
	})
}

// orderedHere reports whether this cluster signed a removal of another cluster. The author's name alone proves nothing:
// a member may vouch for what anybody signed.
func (m *Membership) orderedHere(r replica.Removal) bool {
	return r.By == m.o.ClusterID && r.ByKey.Equal(m.o.Key) && !r.Left()
}

// confirmers are the members that have to confirm removals that were ordered here: all that are not removed.
func (m *Membership) confirmers(of ...replica.Removal) []string {
	if all := m.ledger.Confirming.Load(); all != nil {
		return *all
	}
	return slices.DeleteFunc(m.Members(), func(id string) bool {
		return slices.ContainsFunc(of, func(r replica.Removal) bool { return r.ClusterID == id })
	})
}

// carryOut ends the access of removed clusters to this one. It runs as a task: one run at a time, and again until it
// has worked.
func (m *Membership) carryOut(ctx context.Context) error {
	if err := m.recordRemovals(ctx); err != nil {
		return err
	}
	m.Hooks.Changed(m.o.ClusterID) // what is held, or counts
	var errs []error
	var done []removal
	for _, r := range m.ledger.Which(func(r *removal) bool { return !r.Ended && r.ClusterID != m.o.ClusterID }) {
		if err := m.carryOutOne(ctx, r); err != nil {
			errs = append(errs, err)
			continue
		}
		done = append(done, r)
	}
	if len(done) > 0 {
		if err := m.o.Credentials.Reissue(ctx); err != nil {
			return errors.Join(append(errs, err)...)
		}
		for _, r := range done {
			m.ledger.Change(r.Removal, func(r *removal) { r.Ended = true })
		}
		errs = append(errs, m.recordRemovals(ctx), m.recordPins(ctx))
	}
	return m.o.Problems.Set(problemRemoval, errors.Join(errs...))
}

// carryOutOne carries out one removal. If the cluster was admitted again under another key meanwhile, its tokens are
// revoked nevertheless, because the owner of the old key may have them. Its agent then asks for new ones. If it is not
// admitted, the copies of its Cluster object go whatever key they have.
func (m *Membership) carryOutOne(ctx context.Context, r removal) error {
	errs, gone := []error{m.o.Credentials.Revoke(ctx, r.ClusterID)}, m.Gone(r.ClusterID)
	if gone {
		errs = append(errs, m.o.ForgetCredential(ctx, r.ClusterID))
	}
	for _, c := range m.o.Registry.ByID(r.ClusterID) {
		key, copied := payload.RecordedKey(c), syncrules.Owner(c) == r.ClusterID
		if !r.PublicKey.Equal(payload.AsKey(key)) && (!copied || len(key) > 0 && !gone) {
			continue
		}
		errs = append(errs, m.deleteCluster(ctx, c))
	}
	return errors.Join(errs...)
}

// revokeAccess ends the credentials of a cluster for this one, and of this one for that cluster.
func (m *Membership) revokeAccess(ctx context.Context, id string) error {
	return errors.Join(m.o.Credentials.Revoke(ctx, id), m.o.ForgetCredential(ctx, id))
}

func (m *Membership) deleteCluster(ctx context.Context, c *v1alpha1.Cluster) error {
	err := m.o.Client.Clusters().Delete(ctx, c.Name, &metav1.Preconditions{UID: &c.UID})
	if err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err) { // a conflict means that another object has that name now
		return nil
	}
	return fmt.Errorf("delete cluster %s, which is not in the group any more: %w", c.Name, err)
}

// publishRemovals records removals that this cluster signed, merges them and broadcasts them. The record comes first: after
// a crash the agent must not forget what others have merged.
func (m *Membership) publishRemovals(ctx context.Context, signed ...replica.Removal) error {
	m.recording.Lock()
	defer m.recording.Unlock()
	all, others := m.ledger.All(), m.confirmers(signed...)
	m.ledger.Confirming.Store(&others) // one list for all: a branch has thousands
	defer m.ledger.Confirming.Store(nil)
	for _, r := range signed {
		all = append(all, m.removal(r))
	}
	if err := removals.Write(ctx, m.o.Store, all); err != nil {
		return err
	}
	for _, r := range signed {
		if _, _, err := m.replica.Merge(r.Message(), ""); err != nil {
			return fmt.Errorf("remove %s: %w", r.Name, err)
		}
		m.mesh.Broadcast(r.Message())
	}
	return nil
}

// recordRemovals records the present removals.
func (m *Membership) recordRemovals(ctx context.Context) error {
	m.recording.Lock()
	defer m.recording.Unlock()
	return removals.Write(ctx, m.o.Store, m.ledger.All())
}
