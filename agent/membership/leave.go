// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/mesh"
	"github.com/roster-mesh/roster/replica"
	"github.com/roster-mesh/roster/syncrules"
)

// leaveWait is how long a cluster that leaves tries to reach members. A member that it does not reach shows it as
// unreachable until it is removed there.
const leaveWait = 30 * time.Second

// removedFromGroup returns the removal of this cluster's present key by another cluster.
func (m *Membership) removedFromGroup() (removal, bool) {
	r, ok := m.ledger.Lookup(m.o.ClusterID, m.o.Key)
	return r, ok && !r.Left()
}

// checkLeaveRequest leaves the group if the own Cluster object has an annotation that asks for it. An annotation with
// another value than the cluster's key is refused with an event.
func (m *Membership) checkLeaveRequest(own *v1alpha1.Cluster) {
	asked, ok := own.Annotations[v1alpha1.AnnotationLeave]
	key := v1alpha1.RequestKey(m.o.Key)
	switch {
	case !ok:
	case asked == key:
		m.work.leave.Trigger()
	default:
		m.refuse(own, "LeaveRefused", "the annotation "+v1alpha1.AnnotationLeave+" must have this cluster's key, spec.mesh.publicKey, as its value: "+key)
	}
}

// leave ends the membership of this cluster, if a person asked for that or another member removed it. Steps that an
// earlier call has finished do no harm.
func (m *Membership) leave(ctx context.Context) error {
	select {
	case <-m.keyGivenUp.done:
		return nil // done already
	default:
	}
	key := m.o.Key
	own := m.o.Own()
	asked := own != nil && own.Annotations[v1alpha1.AnnotationLeave] == v1alpha1.RequestKey(key)
	held, removed := m.ledger.Lookup(m.o.ClusterID, key)
	if !asked && !removed {
		return nil
	}
	if !removed {
		next, err := m.o.NextKey(ctx)
		if err != nil {
			return err
		}
		r, err := m.replica.SignLeave(next, m.o.Name(), m.o.Now().Unix())
		if err != nil {
			return err
		}
		if err := m.publishRemovals(ctx, r); err != nil {
			return err
		}
		held.Removal = r
	}
	leaves := held.Left()
	if leaves {
		m.announceLeave(ctx, held.Removal)
	} else {
		m.o.Log.Error("this cluster is not in the group any more", "why", removalText(held), "fix", readmission(m.o.Name()))
	}
	if err := m.forgetGroup(ctx); err != nil {
		return fmt.Errorf("leave the group: %w", err)
	}
	if !leaves && !asked {
		return nil
	}
	if err := m.o.ReplaceKey(ctx, key); err != nil {
		return err
	}
	m.o.Log.Warn("this cluster has given up its key and goes on alone under a new one")
	m.keyGivenUp.once.Do(func() { close(m.keyGivenUp.done) })
	return nil
}

// announceLeave sends the removal of this cluster's key to all members. It waits until at least one member has it, and
// every member that is alive. A member can lie only about itself: if it confirms without merging, nobody else is
// affected, unless it is the only one reached.
func (m *Membership) announceLeave(ctx context.Context, r replica.Removal) {
	ctx, cancel := context.WithTimeout(ctx, leaveWait)
	defer cancel()
	left := m.Members()
	all := len(left)
	for len(left) > 0 {
		unreached := m.sendToAll(ctx, left, r)
		if len(unreached) < all && !slices.ContainsFunc(unreached, func(id string) bool { return m.mesh.Member(id).State == mesh.Alive }) {
			left = unreached
			break
		}
		left = unreached
		_ = m.o.Problems.Set(problemLeave, fmt.Errorf("leaving the group: %d of %d members know of it", all-len(left), all))
		select {
		case <-ctx.Done():
		case <-time.After(sendRetry / 4):
		}
		if ctx.Err() != nil {
			break
		}
	}
	var names []string
	for _, id := range left[:min(len(left), maxListed)] {
		names = append(names, m.o.Registry.Name(id))
	}
	m.o.Log.Info("announced to the group that this cluster leaves", "members", all-len(left), "notReached", len(left), "first", names)
}

// sendToAll sends a removal to those members, and returns the ones that it did not reach.
func (m *Membership) sendToAll(ctx context.Context, ids []string, r replica.Removal) (unreached []string) {
	var mu sync.Mutex
	var group sync.WaitGroup
	slots := make(chan struct{}, 16)
	for _, id := range ids {
		group.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			if _, err := m.sendRemoval(ctx, id, r); err != nil && !m.mesh.RemovedBy(id) {
				mu.Lock()
				defer mu.Unlock()
				unreached = append(unreached, id)
			}
		})
	}
	group.Wait()
	return unreached
}

// forgetGroup deletes everything that this cluster has of the others: pins, credentials on both sides, Cluster objects.
// Copies become orphans. The former members are recorded first, so that a restart can continue.
func (m *Membership) forgetGroup(ctx context.Context) error {
	members, err := m.knownClusters()
	if err != nil {
		return err
	}
	departed := m.ledger.AddDeparted(members)
	if err := recordDeparted(ctx, m.o.Store, departed); err != nil {
		return err
	}
	if len(members) == 0 && !m.pins.forgetting.Load() {
		return m.recordNoPins(ctx)
	}
	m.pins.forgetting.Store(true) // until all has worked: after that, only the record knows those members
	for _, id := range members {
		m.trust.Forget(id)
		m.Hooks.Detached(id)
	}
	errs := []error{m.o.Credentials.Reissue(ctx)}
	for _, id := range departed {
		errs = append(errs, m.revokeAccess(ctx, id))
	}
	for _, id := range members {
		for _, c := range m.o.Registry.ByID(id) {
			errs = append(errs, m.deleteCluster(ctx, c))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	m.pins.forgetting.Store(false)
	for _, pin := range m.trust.Pins() { // introduced by a member that was not forgotten yet
		m.trust.Forget(pin.ClusterID)
	}
	return m.recordNoPins(ctx) // last: as long as pins are recorded, a restart begins again
}

// knownClusters are the other clusters that this one knows: those that are pinned, and those with a Cluster object that
// is a copy.
func (m *Membership) knownClusters() ([]string, error) {
	ids := map[string]struct{}{}
	for _, pin := range m.trust.Pins() {
		ids[pin.ClusterID] = struct{}{}
	}
	clusters, err := m.o.Registry.Clusters.List(labels.Everything())
	if err != nil {
		return nil, err
	}
	for _, c := range clusters {
		if id := string(c.Spec.ClusterID); id != "" && id != m.o.ClusterID && syncrules.Owner(c) == id {
			ids[id] = struct{}{}
		}
	}
	out := make([]string, 0, len(ids))
	for id := range ids {
		out = append(out, id)
	}
	slices.Sort(out)
	return out, nil
}

// resume continues what an earlier run did not finish.
func (m *Membership) resume() {
	for _, id := range m.ledger.RemovedOrLeftIDs() {
		if m.Gone(id) {
			m.Hooks.Detached(id)
		}
	}
	members := m.Members()
	for _, r := range m.ledger.Which(func(r *removal) bool { return r.AskAll || len(r.Waiting) > 0 }) {
		if r.AskAll {
			r.Waiting = members
			m.ledger.Change(r.Removal, func(held *removal) { held.Waiting, held.AskAll = r.Waiting, false })
		}
		for _, id := range r.Waiting {
			m.work.sends.Add(id)
		}
	}
	m.work.carryOut.Trigger()
	m.work.leave.Trigger()
	m.work.again.Trigger()
}
