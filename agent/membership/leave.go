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

	"github.com/roster-mesh/roster/kube"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/mesh"
	"github.com/roster-mesh/roster/replica"
	"github.com/roster-mesh/roster/syncrules"
)

// leaveWait is how long a cluster that leaves tries to reach any member at all. Whom it does not reach lists it as
// unreachable until it is removed there.
const leaveWait = 30 * time.Second

// expelled returns the removal of this cluster's own present key, by another cluster.
func (m *Membership) expelled() (removal, bool) {
	r, ok := m.ledger.of(m.o.ClusterID, m.o.Key)
	return r, ok && !r.Left()
}

// Heed hears a person's request to leave.
func (m *Membership) Heed(own *v1alpha1.Cluster) {
	asked, ok := own.Annotations[v1alpha1.AnnotationLeave]
	key := v1alpha1.RequestKey(m.o.Key)
	switch {
	case !ok:
	case asked == key:
		m.work.departs.Again()
	default:
		text := "the annotation " + v1alpha1.AnnotationLeave + " must have this cluster's key, spec.mesh.publicKey, as its value: " + key
		if !m.once.First(string(own.UID), text) {
			return
		}
		m.o.Events.Event(m.o.Client.Clusters().Kind(), own, kube.EventWarning, "LeaveRefused", text)
		m.o.Log.Warn("a request to leave is refused", "why", text)
	}
}

// depart ends this cluster's membership, as far as it is to end.
func (m *Membership) depart(ctx context.Context) error {
	select {
	case <-m.startAgain:
		return nil // it is done
	default:
	}
	key := m.o.Key
	own := m.o.Own()
	asked := own != nil && own.Annotations[v1alpha1.AnnotationLeave] == v1alpha1.RequestKey(key)
	held, removed := m.ledger.of(m.o.ClusterID, key)
	if !asked && !removed {
		return nil
	}
	if !removed {
		r, err := m.replica.SignRemoval(m.o.ClusterID, key, m.o.Name(), m.o.Name(), m.o.Now().Unix())
		if err != nil {
			return err
		}
		if err := m.publishRemoval(ctx, r); err != nil {
			return err
		}
		held.Removal = r
	}
	leaves := held.Left()
	if leaves {
		m.announceLeave(ctx, held.Removal)
	} else {
		m.o.Log.Error("this cluster is not in the group any more", "why", told(held), "fix", readmission(m.o.Name()))
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
	m.again.Do(func() { close(m.startAgain) })
	return nil
}

// announceLeave tells the members, and waits until at least one knows, and every one that is alive: one that lies can say
// that it knows, or that it dismissed us, for itself only. Where it alone is reached, it is as if nobody was.
func (m *Membership) announceLeave(ctx context.Context, r replica.Removal) {
	ctx, cancel := context.WithTimeout(ctx, leaveWait)
	defer cancel()
	var left []string
	for _, pin := range m.trust.Pins() {
		left = append(left, pin.ClusterID)
	}
	all := len(left)
	for len(left) > 0 {
		untold := m.tellAll(ctx, left, r)
		if len(untold) < all && !slices.ContainsFunc(untold, func(id string) bool { return m.mesh.Member(id).State == mesh.Alive }) {
			left = untold
			break
		}
		left = untold
		_ = m.o.Problems.Set(problemLeave, fmt.Errorf("leaving the group: %d of %d members know of it", all-len(left), all))
		select {
		case <-ctx.Done():
		case <-time.After(tellAgain / 4):
		}
		if ctx.Err() != nil {
			break
		}
	}
	var names []string
	for _, id := range left[:min(len(left), maxOrders)] {
		names = append(names, m.o.Registry.Name(id))
	}
	m.o.Log.Info("told the group that this cluster leaves", "members", all-len(left), "notReached", len(left), "first", names)
}

// tellAll returns whom it did not reach.
func (m *Membership) tellAll(ctx context.Context, ids []string, r replica.Removal) (untold []string) {
	var mu sync.Mutex
	var group sync.WaitGroup
	slots := make(chan struct{}, 16)
	for _, id := range ids {
		group.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			if err := m.tell(ctx, id, r); err != nil && !m.mesh.RemovedBy(id) {
				mu.Lock()
				defer mu.Unlock()
				untold = append(untold, id)
			}
		})
	}
	group.Wait()
	return untold
}

// forgetGroup ends everything that this cluster has of the others: pins, credentials on both sides, Cluster objects.
// Copies become orphans. Who was a member is recorded, so that a restart in between goes on.
func (m *Membership) forgetGroup(ctx context.Context) error {
	members, err := m.others()
	if err != nil {
		return err
	}
	departed := m.ledger.depart(members)
	if err := recordDeparted(ctx, m.o.Store, departed); err != nil {
		return err
	}
	if len(members) == 0 && !m.pins.forgetting.Load() {
		return m.recordNoPins(ctx)
	}
	m.pins.forgetting.Store(true) // what fails is tried again, when nothing else tells of those members any more
	for _, id := range members {
		m.trust.Forget(id)
		m.Hooks.Detached(id)
	}
	errs := []error{m.o.Credentials.Reissue(ctx)}
	for _, id := range departed {
		errs = append(errs, m.endAccess(ctx, id))
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
	return m.recordNoPins(ctx) // last: with the pins, a restart begins again
}

// others are the clusters that this one knows of: those pinned, and those of which it has a Cluster object that was
// pinned, or is a copy.
func (m *Membership) others() ([]string, error) {
	ids := map[string]struct{}{}
	for _, pin := range m.trust.Pins() {
		ids[pin.ClusterID] = struct{}{}
	}
	clusters, err := m.o.Registry.Clusters.List(labels.Everything())
	if err != nil {
		return nil, err
	}
	for _, c := range clusters {
		if id := string(c.Spec.ClusterID); id != m.o.ClusterID && syncrules.Owner(c) == id {
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

// resume goes on with what an earlier start did not finish.
func (m *Membership) resume() {
	for _, id := range m.ledger.mentioned() {
		if m.Gone(id) {
			m.Hooks.Detached(id)
		}
	}
	for _, r := range m.ledger.all() {
		if r.unasked {
			r.waiting = m.toConfirm(r.Removal)
			m.ledger.change(r.Removal, func(held *removal) { held.waiting, held.unasked = r.waiting, false })
		}
		for _, id := range r.waiting {
			m.work.tells.Add(id)
		}
	}
	m.work.ends.Again()
	m.work.departs.Again()
}
