// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"crypto/ed25519"
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

// A membership ends in one of two ways.
//
//	member ──── leave (a person here) ────► everybody told ──┐
//	   │                                                     ├─► group forgotten ──► new key, alone
//	   └─────── removed (by another member) ──► group        │
//	                                         forgotten ── leave
//
// A removed cluster keeps its key, which says that it was removed, until a person in it asks for a new one; that is
// the same request as to leave: this key is given up.

// leaveWait is how long a cluster that leaves tries to reach any member at all. Whom it does not reach lists it as
// unreachable until it is removed there.
const leaveWait = 30 * time.Second

// errStartAgain ends a session whose key was given up; the next one has another.
var errStartAgain = errors.New("the agent goes on under a new key")

// expelled returns the removal of this cluster's own present key, by another cluster.
func (s *session) expelled() (removal, bool) {
	r, ok := s.removals.of(s.clusterID, s.key.Public().(ed25519.PublicKey))
	return r, ok && !r.Left()
}

// heed hears a person's request to leave.
func (s *session) heed(own *v1alpha1.Cluster) {
	asked, ok := own.Annotations[v1alpha1.AnnotationLeave]
	key := v1alpha1.RequestKey(s.key.Public().(ed25519.PublicKey))
	switch {
	case !ok:
	case asked == key:
		s.chores.add(choreDepart)
	default:
		text := "the annotation " + v1alpha1.AnnotationLeave + " must have this cluster's key, spec.mesh.publicKey, as its value: " + key
		if !s.said.first(string(own.UID), text) {
			return
		}
		s.events.Event(s.client.Clusters().Kind(), own, kube.EventWarning, "LeaveRefused", text)
		s.log.Warn("a request to leave is refused", "why", text)
	}
}

// depart ends this cluster's membership, as far as it is to end.
func (s *session) depart(ctx context.Context) error {
	select {
	case <-s.startAgain:
		return nil // it is done
	default:
	}
	key := s.key.Public().(ed25519.PublicKey)
	own := s.registry.ownCluster()
	asked := own != nil && own.Annotations[v1alpha1.AnnotationLeave] == v1alpha1.RequestKey(key)
	held, removed := s.removals.of(s.clusterID, key)
	if !asked && !removed {
		return nil
	}
	if !removed {
		r, err := s.replica.SignRemoval(s.clusterID, key, s.ownName(), s.ownName(), s.clock.now().Unix())
		if err != nil {
			return err
		}
		if err := s.proclaim(ctx, r); err != nil {
			return err
		}
		held.Removal = r
	}
	leaves := held.Left()
	if leaves {
		s.bidGoodbye(ctx, held.Removal)
	} else {
		s.log.Error("this cluster is not in the group any more", "why", told(held), "fix", readmission(s.ownName()))
	}
	if err := s.forgetGroup(ctx); err != nil {
		return fmt.Errorf("leave the group: %w", err)
	}
	if !leaves && !asked {
		return nil
	}
	if err := s.private.replaceKey(ctx, key); err != nil {
		return err
	}
	s.log.Warn("this cluster has given up its key and goes on alone under a new one")
	s.again.Do(func() { close(s.startAgain) })
	return nil
}

// bidGoodbye tells the members, and waits until at least one knows, and every one that is alive: one that lies can say
// that it knows, or that it dismissed us, for itself only. Where it alone is reached, it is as if nobody was.
func (s *session) bidGoodbye(ctx context.Context, r replica.Removal) {
	ctx, cancel := context.WithTimeout(ctx, leaveWait)
	defer cancel()
	var left []string
	for _, pin := range s.trust.Pins() {
		left = append(left, pin.ClusterID)
	}
	all := len(left)
	for len(left) > 0 {
		untold := s.tellAll(ctx, left, r)
		if len(untold) < all && !slices.ContainsFunc(untold, func(id string) bool { return s.mesh.Member(id).State == mesh.Alive }) {
			left = untold
			break
		}
		left = untold
		_ = s.problems.set(problemLeave, fmt.Errorf("leaving the group: %d of %d members know of it", all-len(left), all))
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
		names = append(names, s.clusterName(id))
	}
	s.log.Info("told the group that this cluster leaves", "members", all-len(left), "notReached", len(left), "first", names)
}

// tellAll returns whom it did not reach.
func (s *session) tellAll(ctx context.Context, ids []string, r replica.Removal) (untold []string) {
	var mu sync.Mutex
	var group sync.WaitGroup
	slots := make(chan struct{}, 16)
	for _, id := range ids {
		group.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			if err := s.tell(ctx, id, r); err != nil && !s.mesh.DismissedBy(id) {
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
func (s *session) forgetGroup(ctx context.Context) error {
	members, err := s.others()
	if err != nil {
		return err
	}
	departed := s.removals.depart(members)
	if err := s.private.recordDeparted(ctx, departed); err != nil {
		return err
	}
	if len(members) == 0 && !s.forgetting.Load() {
		return s.recordNoPins(ctx)
	}
	s.forgetting.Store(true) // what fails is tried again, when nothing else tells of those members any more
	for _, id := range members {
		s.trust.Forget(id)
		s.leaveBehind(id)
	}
	errs := []error{s.reissueBootstrap(ctx)}
	for _, id := range departed {
		errs = append(errs, s.endAccess(ctx, id))
	}
	for _, id := range members {
		for _, c := range s.registry.byID(id) {
			errs = append(errs, s.deleteCluster(ctx, c))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	s.forgetting.Store(false)
	for _, pin := range s.trust.Pins() { // introduced by a member that was not forgotten yet
		s.trust.Forget(pin.ClusterID)
	}
	return s.recordNoPins(ctx) // last: with the pins, a restart begins again
}

// recordNoPins waits for what is being recorded, which were the pins of a moment ago.
func (s *session) recordNoPins(ctx context.Context) error {
	s.pinning.Lock()
	defer s.pinning.Unlock()
	return s.private.recordPins(ctx, nil)
}

// recordPins keeps what is pinned now; of a group that is being forgotten it keeps what was pinned, from which a restart
// begins again.
func (s *session) recordPins(ctx context.Context) error {
	s.pinning.Lock()
	defer s.pinning.Unlock()
	pins := s.trust.Pins()
	if s.forgetting.Load() {
		return nil
	}
	return s.private.recordPins(ctx, pins)
}

// others are the clusters that this one knows of: those pinned, and those of which it has a Cluster object that was
// pinned, or is a copy.
func (s *session) others() ([]string, error) {
	ids := map[string]struct{}{}
	for _, pin := range s.trust.Pins() {
		ids[pin.ClusterID] = struct{}{}
	}
	clusters, err := s.registry.clusters.List(labels.Everything())
	if err != nil {
		return nil, err
	}
	for _, c := range clusters {
		if id := string(c.Spec.ClusterID); id != s.clusterID && syncrules.Owner(c) == id {
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

// replaceKey mints another key for this cluster, unless that was done before. The epoch goes on, so that what this
// cluster publishes is newer than what it has published.
func (p *private) replaceKey(ctx context.Context, old ed25519.PublicKey) error {
	key, err := mesh.GenerateKey()
	if err != nil {
		return fmt.Errorf("make identity key: %w", err)
	}
	data, err := mesh.MarshalPrivateKey(key)
	if err != nil {
		return fmt.Errorf("encode identity key: %w", err)
	}
	return p.changeIdentity(ctx, func(secret *kube.Secret) bool {
		if held, err := mesh.ParsePrivateKey(secret.Data[identityKey]); err == nil && !held.Public().(ed25519.PublicKey).Equal(old) {
			return false
		}
		secret.Data[identityKey] = data
		return true
	})
}
