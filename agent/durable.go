// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roster-mesh/roster/replica"
	"github.com/roster-mesh/roster/replica/journal"
)

// openReplica opens what is held of all clusters, from --data-dir or with nothing, and returns the epoch that this
// cluster writes in: the one that the disk ends in, when nobody has opened another one since, else a new one.
func (s *session) openReplica(ctx context.Context, removals []replica.Removal) (epoch uint64, err error) {
	empty := func() (journal.Machine, error) {
		var err error
		s.replica, err = replica.New(replica.Options{
			Self: s.clusterID, PrivateKey: s.key, Keyring: s.trust,
			Removed: s.removed, Removals: removals, OwnEpochSeen: func(uint64) { s.chores.add(choreEpoch) },
			Broadcast: func(msgs ...[]byte) { s.mesh.Broadcast(msgs...) }, Note: s.position,
		})
		if err == nil {
			s.replica.Subscribe(s.entriesChanged)
		}
		return s.replica, err
	}
	if s.options.DataDir == "" {
		if _, err := empty(); err != nil {
			return 0, fmt.Errorf("open replica: %w", err)
		}
		if epoch, err = s.private.openEpoch(ctx, 0); err != nil {
			return 0, err
		}
		return epoch, s.replica.Open(epoch, nil)
	}
	if err := s.openJournal(ctx, empty); err != nil {
		return 0, err
	}
	if epoch, err = s.private.resumeEpoch(ctx, s.replica.LastEpoch()); err != nil {
		return 0, err
	}
	if err := s.client.Positions.Recall(s.replica.Note()); err != nil {
		return 0, s.dataDir(err)
	}
	if err := s.replica.Open(epoch, s.term); err != nil {
		return 0, fmt.Errorf("open replica: %w", err)
	}
	s.forgetStrangers()
	return epoch, nil
}

// openJournal has the replica hold what is on disk, in a group what the group holds, and leads.
func (s *session) openJournal(ctx context.Context, empty func() (journal.Machine, error)) (err error) {
	if s.group != nil {
		machine, err := empty()
		if err == nil {
			err = s.group.journal.Adopt(machine)
		}
		if err != nil {
			return s.dataDir(err)
		}
		return s.group.charter().takeOffice(ctx, s.group.journal.Status(), s.replica.LastEpoch())
	}
	s.journal, err = journal.Open(ctx, journal.Options{
		Dir: s.options.DataDir, ClusterID: s.clusterID, PublicKey: s.key.Public().(ed25519.PublicKey),
		Machine: empty, Log: s.log,
	})
	if err == nil {
		s.term, err = s.journal.Lead(ctx)
	}
	if err != nil {
		return s.dataDir(err)
	}
	return nil
}

// dataDir says what to do about a directory that cannot be used.
func (s *session) dataDir(err error) error {
	advice := "name a directory that the agent can write to, or give --data-dir= to keep nothing on disk"
	switch {
	case errors.Is(err, journal.ErrInUse):
		advice = "stop that agent, or name another directory"
	case errors.Is(err, journal.ErrOtherCluster):
		advice = "give each cluster a directory of its own, or empty this one"
	case errors.Is(err, context.Canceled), errors.Is(err, journal.ErrLost), errors.Is(err, journal.ErrCharter):
		return err
	}
	return fmt.Errorf("--data-dir %s: %w; %s", s.options.DataDir, err, advice)
}

// runJournal ends the agent when what it does is not on disk any more.
func (s *session) runJournal(ctx context.Context) error {
	if s.term == nil {
		return nil
	}
	if err := s.term.Run(ctx); errors.Is(err, journal.ErrLost) {
		return err
	} else if err != nil {
		return fmt.Errorf("--data-dir %s: %w", s.options.DataDir, err)
	}
	return nil
}

// closeJournal ends the term, and gives the directory back where the session has it. It may be called again.
func (s *session) closeJournal() {
	if s.term != nil {
		s.term.End()
	}
	if s.journal == nil {
		return
	}
	if err := s.journal.Close(); err != nil {
		s.log.Warn("the data directory was not closed well", "dir", s.options.DataDir, "error", err)
	}
	s.journal = nil
}

// forgetStrangers lets go of clusters whose key is not pinned, or which have another key now: the agent died before
// the pin was recorded, or before it was on disk that a removal took what the old key had signed.
func (s *session) forgetStrangers() {
	for _, origin := range s.replica.Origins() {
		pinned, ok := s.trust.Key(origin)
		e, held := s.replica.Lookup(clusterKey(origin), origin)
		if !ok || held && !pinned.Equal(asKey(e.PublicKey)) {
			s.replica.Forget(origin)
		}
	}
}

// takeStock looks at all that was held when the agent started, as if it had just come: what it was to bring about
// may not have been done.
func (s *session) takeStock() {
	var changes []replica.Change
	for _, kind := range [...]replica.Kind{replica.KindCluster, replica.KindRule} {
		for _, e := range s.replica.Entries(kind) {
			if e.Origin != s.clusterID {
				changes = append(changes, replica.Change{Key: e.Key, Origin: e.Origin})
			}
		}
	}
	for _, origin := range s.replica.Origins() {
		if origin != s.clusterID {
			changes = append(changes, replica.Change{Origin: origin})
		}
	}
	s.entriesChanged(changes)
}

// ownKinds are the kinds that this cluster publishes.
func (s *session) ownKinds() []schema.GroupVersionKind {
	return []schema.GroupVersionKind{s.client.Clusters().Kind(), s.client.Rules().Kind(), s.client.Features().Kind()}
}

// position is how far the local API server was when something was published. It is durable with that: a server that
// is not as far at the next start was restored from a backup, and what it lacks was not deleted.
func (s *session) position() []byte {
	note, err := s.client.Positions.Note(s.ownKinds()...)
	if err != nil {
		return nil // it is made of strings, which cannot fail
	}
	return note
}
