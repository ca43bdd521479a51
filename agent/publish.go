// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/replica"
	"github.com/roster-mesh/roster/syncrules"
)

// publishAll hands everything that this cluster owns to the replica, with what it does not own any more, and then marks
// the epoch complete: from there on, what an earlier epoch held and this one does not is known to be gone.
func (s *session) publishAll(ctx context.Context) error {
	began, going := s.restore.going()
	var errs []error
	done := map[replica.Key]bool{}
	put := func(kind replica.Kind, name string) {
		key := replica.Key{Kind: kind, Name: name}
		if done[key] {
			return
		}
		done[key] = true
		if err := s.publishLocal(ctx, key); err != nil {
			errs = append(errs, err)
		}
	}
	put(replica.KindCluster, s.clusterID)
	rules, err := s.registry.rules.List(labels.Everything())
	errs = append(errs, err)
	for _, r := range rules {
		put(replica.KindRule, r.Name)
	}
	features, err := s.registry.features.List(labels.Everything())
	errs = append(errs, err)
	for _, f := range features {
		put(replica.KindFeature, f.Name)
	}
	for _, kind := range [...]replica.Kind{replica.KindRule, replica.KindFeature} { // what was deleted while the agent was away
		for _, e := range s.replica.EntriesOf(s.clusterID, kind) {
			put(kind, e.Key.Name)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err // not complete: nobody may take what is missing for deleted
	}
	if ended, _ := s.restore.going(); !going || ended != began {
		return nil // nor what was not put; once a freeze is confirmed, everything is put up again
	}
	s.mesh.Broadcast(s.replica.Complete()...)
	return nil
}

// publishKey is the publisher: it makes the replica say of a key what the local API server says.
func (s *session) publishKey(ctx context.Context, key replica.Key) error {
	if key.Kind == replica.KindCluster {
		own := s.registry.ownCluster()
		if own != nil {
			s.heed(own)
		}
		if own == nil {
			_, err := s.ensureOwnCluster(ctx)
			return err
		}
		want := own.DeepCopy()
		if s.fillOwn(want); !equality.Semantic.DeepEqual(own.Spec, want.Spec) || !sameMeta(own, want) {
			if _, err := s.ensureOwnCluster(ctx); err != nil {
				return err
			}
		}
		confirmed, err := s.confirmed(ctx)
		if err == nil && confirmed {
			err = s.publishAgain()
		}
		if err != nil {
			return err
		}
	}
	err := s.publishLocal(ctx, key)
	if key.Kind == replica.KindRule && !errors.Is(err, errUnproven) {
		s.settleRule(key.Name, true)
	}
	return err
}

// publishLocal reads the watched object and hands it to the replica. An object with an owner is a copy and
// never published.
func (s *session) publishLocal(ctx context.Context, key replica.Key) error {
	s.publishing.Lock() // or what was read first might be published last
	defer s.publishing.Unlock()
	status, payload, err := s.local(key)
	if status == replica.Deleted {
		if err := s.proveDeleted(ctx, key); err != nil {
			return err
		}
	}
	if s.restore.isFrozen() {
		return nil // until it is confirmed; then everything is put up again
	}
	if err != nil {
		return fmt.Errorf("encode %s %s: %w", kindName(key.Kind), key.Name, err)
	}
	messages, err := s.replica.Publish(key, status, payload)
	if errors.Is(err, replica.ErrTooLarge) {
		s.log.Error("an object is too large to be published and is kept to this cluster", "kind", kindName(key.Kind), "name", key.Name, "error", err)
		messages, err = s.replica.Publish(key, replica.Withdrawn, nil)
	}
	if err != nil {
		err = fmt.Errorf("publish %s %s: %w", kindName(key.Kind), key.Name, err)
	}
	room := problemRoom + kindName(key.Kind) + " " + key.Name
	if errors.Is(err, replica.ErrFull) {
		return s.problems.set(room, fmt.Errorf("%w: delete rules or features that are not needed", err))
	}
	_ = s.problems.set(room, nil)
	if err != nil {
		return err
	}
	s.mesh.Broadcast(messages...)
	if status == replica.Deleted && s.replica.Overgrown(s.options.Tombstones) {
		s.chores.add(choreCollect)
	}
	return nil
}

// collect frees the tombstones of this cluster, by announcing what it has in a new epoch, which is recorded first: a
// crash in between costs a number.
func (s *session) collect(ctx context.Context) error {
	s.reopening.Lock()
	defer s.reopening.Unlock()
	if s.restore.isFrozen() || !s.replica.Overgrown(s.options.Tombstones) {
		return nil
	}
	epoch, err := s.private.openEpoch(ctx, s.replica.LastEpoch())
	if err != nil {
		return err
	}
	s.log.Info("many objects of this cluster were deleted: announcing the others in a new epoch", "epoch", epoch)
	messages, err := s.replica.Reopen(epoch)
	s.mesh.Broadcast(messages...)
	if err != nil {
		s.chores.add(choreAnnounce) // puts up what is missing, and completes the epoch
		return fmt.Errorf("open epoch %d: %w", epoch, err)
	}
	return nil
}

// local is what the local API server says of a key: Live with its payload, Withdrawn, or Deleted when there
// is no such object of this cluster's own.
func (s *session) local(key replica.Key) (replica.Status, []byte, error) {
	switch key.Kind {
	case replica.KindCluster:
		c := s.registry.ownCluster()
		if c == nil {
			return replica.Withdrawn, nil, nil // being recreated
		}
		payload, err := encodeCluster(c)
		return replica.Live, payload, err
	case replica.KindRule:
		r, err := s.registry.rules.Get(key.Name)
		if err != nil || syncrules.Owner(r) != "" {
			return replica.Deleted, nil, nil //nolint:nilerr // the one error of a lister is that it has none
		}
		if s.withheld(r) {
			return replica.Withdrawn, nil, nil
		}
		payload, err := encodeRule(r)
		return replica.Live, payload, err
	case replica.KindFeature:
		f, err := s.registry.features.Get(key.Name)
		if err != nil || syncrules.Owner(f) != "" {
			return replica.Deleted, nil, nil //nolint:nilerr // as above
		}
		if s.withheld(f) {
			return replica.Withdrawn, nil, nil
		}
		payload, err := encodeFeature(f)
		return replica.Live, payload, err
	}
	return replica.Deleted, nil, nil
}

// withheld tells the objects that their owner keeps to the cluster: by annotation each, or all of them.
func (s *session) withheld(o metav1.Object) bool {
	return !s.options.CoreResourceSource || has(o, v1alpha1.AnnotationSyncDisabled)
}

// reopen starts a higher epoch when a peer holds entries of ours that we do not remember having signed: our
// recorded epoch was restored from a backup, and what else we have may be as old, or another agent signs with this
// cluster's key. So a person has to agree. The new epoch is recorded before it is used.
func (s *session) reopen(ctx context.Context) error {
	s.reopening.Lock() // what is being met already is no news
	defer s.reopening.Unlock()
	seen := s.replica.OwnEpochSeen()
	if seen == 0 {
		return nil
	}
	if !s.restore.mayReopen() {
		s.freeze()
		return nil
	}
	epoch, err := s.private.openEpoch(ctx, seen)
	if err != nil {
		return err
	}
	s.log.Warn("a member holds later entries of this cluster than this agent: opening a new epoch", "seen", seen, "epoch", epoch)
	messages, err := s.replica.Reopen(epoch)
	s.mesh.Broadcast(messages...)
	if err != nil {
		s.chores.add(choreAnnounce)
		return fmt.Errorf("open epoch %d: %w", epoch, err)
	}
	s.restore.reopened()
	return nil
}
