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
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/replica"
	"github.com/roster-mesh/roster/syncrules"
)

const (
	tellTimeout = 5 * time.Second
	tellAgain   = 2 * time.Second
	// recordUnknown is how long the record of removals waits that are about nothing here.
	recordUnknown = time.Hour
)

// Removed is called by the replica for every removal that is merged, our own included. One that is about nothing that
// this cluster knows is kept against introductions, and costs no request but for its record, which can wait: a
// member may make up as many as it likes.
func (m *Membership) Removed(r replica.Removal, pinned, first bool) {
	waiting := m.toConfirm(r)
	now := removal{Removal: r, ordered: m.orderedHere(r), waiting: waiting}
	if author, ok := m.trust.Key(r.By); !r.Left() && (!ok || !author.Equal(r.ByKey)) {
		now.unverifiedAuthor = true
	}
	now.unknownKey = !pinned && !m.concerns(r)
	now.ended = now.unknownKey
	m.ledger.take(now)
	if now.unknownKey {
		m.o.Log.Debug("the key of an unknown cluster was removed from the group", "clusterID", r.ClusterID, "byClusterID", r.By)
		m.work.ends.AgainAfter(recordUnknown)
		return
	}
	if first {
		m.o.Log.Warn("a cluster's key was removed from the group", "cluster", r.Name, "clusterID", r.ClusterID, "by", r.ByName, "byClusterID", r.By, "left", r.Left())
	}
	m.work.ends.Again()
	if r.ClusterID == m.o.ClusterID && r.PublicKey.Equal(m.o.Key) {
		m.work.departs.Again()
		m.Hooks.Changed(m.o.ClusterID)
		return
	}
	if m.Gone(r.ClusterID) {
		m.Hooks.Detached(r.ClusterID)
	}
	for _, id := range waiting {
		m.work.tells.Add(id)
	}
	if m.ledger.awaits(r.ClusterID) {
		m.work.tells.Add(r.ClusterID) // it confirms nothing any more
	}
}

// concerns says that a removal whose key is pinned for nobody is about something here: this cluster itself, or a
// Cluster object.
func (m *Membership) concerns(r replica.Removal) bool {
	return m.orderedHere(r) || r.ClusterID == m.o.ClusterID && r.PublicKey.Equal(m.o.Key) || slices.ContainsFunc(m.o.Registry.ByID(r.ClusterID), func(c *v1alpha1.Cluster) bool {
		return r.PublicKey.Equal(payload.AsKey(payload.RecordedKey(c)))
	})
}

// orderedHere says that a removal of another cluster is signed by this one. Its name alone says nothing: a member may
// vouch for what anybody signed.
func (m *Membership) orderedHere(r replica.Removal) bool {
	return r.By == m.o.ClusterID && r.ByKey.Equal(m.o.Key) && !r.Left()
}

// toConfirm are the members that are to confirm a removal: all others, of one that is ordered here.
func (m *Membership) toConfirm(r replica.Removal) (ids []string) {
	if !m.orderedHere(r) {
		return nil
	}
	for _, pin := range m.trust.Pins() {
		if pin.ClusterID != r.ClusterID {
			ids = append(ids, pin.ClusterID)
		}
	}
	return ids
}

// carryOut ends what the removed clusters have here. It is a chore, so that it is done once at a time and again until
// it worked.
func (m *Membership) carryOut(ctx context.Context) error {
	if err := m.recordRemovals(ctx); err != nil {
		return err
	}
	var errs []error
	var done []removal
	for _, r := range m.ledger.all() {
		if r.ended || r.ClusterID == m.o.ClusterID {
			continue
		}
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
			m.ledger.change(r.Removal, func(r *removal) { r.ended = true })
		}
		errs = append(errs, m.recordRemovals(ctx), m.recordPins(ctx))
	}
	return m.o.Problems.Set(problemRemoval, errors.Join(errs...))
}

// carryOutOne does that for one removal. Of a cluster that was admitted again under another key before, as when both
// arrive at once, the tokens end nevertheless: whoever has the old key may have them. It asks for another one.
func (m *Membership) carryOutOne(ctx context.Context, r removal) error {
	errs := []error{m.o.Credentials.Revoke(ctx, r.ClusterID)}
	if m.Gone(r.ClusterID) {
		errs = append(errs, m.o.ForgetCredential(ctx, r.ClusterID))
	}
	for _, c := range m.o.Registry.ByID(r.ClusterID) {
		if key := payload.RecordedKey(c); !r.PublicKey.Equal(payload.AsKey(key)) && (len(key) > 0 || syncrules.Owner(c) != r.ClusterID) {
			continue
		}
		errs = append(errs, m.deleteCluster(ctx, c))
	}
	return errors.Join(errs...)
}

// endAccess ends the credentials of a cluster here and ours there.
func (m *Membership) endAccess(ctx context.Context, id string) error {
	return errors.Join(m.o.Credentials.Revoke(ctx, id), m.o.ForgetCredential(ctx, id))
}

func (m *Membership) deleteCluster(ctx context.Context, c *v1alpha1.Cluster) error {
	err := m.o.Client.Clusters().Delete(ctx, c.Name, &metav1.Preconditions{UID: &c.UID})
	if err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err) { // a conflict: another object has the name now
		return nil
	}
	return fmt.Errorf("delete cluster %s, which is not in the group any more: %w", c.Name, err)
}

// publishRemoval makes a removal of our own take effect. It is recorded first: a crash must not take back what others were
// told.
func (m *Membership) publishRemoval(ctx context.Context, r replica.Removal) error {
	m.recording.Lock()
	defer m.recording.Unlock()
	if err := recordRemovals(ctx, m.o.Store, append(m.ledger.all(), removal{Removal: r, ordered: m.orderedHere(r), waiting: m.toConfirm(r)})); err != nil {
		return err
	}
	if _, _, err := m.replica.Merge(r.Message(), ""); err != nil {
		return fmt.Errorf("remove %s: %w", r.Name, err)
	}
	m.mesh.Broadcast(r.Message())
	return nil
}

// recordRemovals keeps what is held now.
func (m *Membership) recordRemovals(ctx context.Context) error {
	m.recording.Lock()
	defer m.recording.Unlock()
	return recordRemovals(ctx, m.o.Store, m.ledger.all())
}
