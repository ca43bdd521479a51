// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roster-mesh/roster/agent/admissions"
	"github.com/roster-mesh/roster/agent/group"
	"github.com/roster-mesh/roster/agent/install"
	"github.com/roster-mesh/roster/agent/payload"
	"github.com/roster-mesh/roster/agent/restore"
	"github.com/roster-mesh/roster/kube/history"
	"github.com/roster-mesh/roster/replica"
	"github.com/roster-mesh/roster/replica/journal"
)

// openReplica makes the replica, loads what is on disk or what the group holds, and opens the epoch in which this
// cluster publishes.
func (p *parts) openReplica(ctx context.Context, g *group.Group) (err error) {
	empty := func() (journal.Machine, error) {
		var err error
		p.replica, err = replica.New(replica.Options{
			Self: p.clusterID, PrivateKey: p.key, Keyring: p.membership.Keyring(), Hold: p.membership.Hold, Removed: p.membership.Removed, Removals: p.membership.Removals(),
			Broadcast: func(messages ...[]byte) { p.mesh.Broadcast(messages...) }, Note: p.position,
			OwnEpochSeen: func(uint64) { p.publisher.EpochSeen() }, Parent: func(id string) string { return p.admissions.Parent(id) },
		})
		if err == nil {
			p.admissions = admissions.New(p.clusterID, p.membership.Trust(), p.replica, p.log)
			p.membership.Trust().ShareBy(p.admissions.Share)
			p.replica.Subscribe(p.admissions.Changed) // first: what is merged next may be on the word of it
			p.replica.Subscribe(p.entriesChanged)
		}
		return p.replica, err
	}
	var epoch uint64
	if p.options.DataDir == "" {
		if _, err := empty(); err != nil {
			return fmt.Errorf("open replica: %w", err)
		}
		if epoch, err = p.identity.OpenEpoch(ctx, 0); err == nil {
			err = p.replica.Open(epoch, nil)
		}
	} else {
		epoch, err = p.openDurable(ctx, g, empty)
	}
	if err != nil {
		return err
	}
	p.metrics.MustRegister(newReplicaCollector(p.replica, p.membership.Members, epoch))
	return nil
}

func (p *parts) openDurable(ctx context.Context, g *group.Group, empty func() (journal.Machine, error)) (epoch uint64, err error) {
	if g != nil {
		err = p.adopt(ctx, g, empty)
	} else {
		err = p.openJournal(ctx, empty)
	}
	if err != nil {
		return 0, err
	}
	if epoch, err = p.identity.ResumeEpoch(ctx, p.replica.LastEpoch(), restore.Mark); err != nil {
		return 0, err
	}
	if err := p.client.Positions.Recall(p.replica.Note()); err != nil {
		return 0, install.DataDirError(p.options.DataDir, err)
	}
	if err := p.replica.Open(epoch, p.term); err != nil {
		return 0, fmt.Errorf("open replica: %w", err)
	}
	p.dropUnpinned()
	p.admissions.Load()
	return epoch, nil
}

// adopt makes the replica take over the journal of the group, which has the term already.
func (p *parts) adopt(ctx context.Context, g *group.Group, empty func() (journal.Machine, error)) error {
	machine, err := empty()
	if err == nil {
		err = g.Journal().Adopt(machine)
	}
	if err != nil {
		return install.DataDirError(p.options.DataDir, err)
	}
	return g.ClaimLeadership(ctx, p.replica.LastEpoch())
}

// openJournal opens the data directory of a single agent, and starts a term in it.
func (p *parts) openJournal(ctx context.Context, empty func() (journal.Machine, error)) error {
	opened, err := journal.Open(ctx, journal.Options{
		Dir: p.options.DataDir, ClusterID: p.clusterID, PublicKey: p.publicKey(), Machine: empty, Log: p.log,
	})
	if err != nil {
		return install.DataDirError(p.options.DataDir, err)
	}
	p.stops.Push("data directory "+p.options.DataDir, opened.Close)
	if p.term, err = opened.Lead(ctx); err != nil {
		return install.DataDirError(p.options.DataDir, err)
	}
	p.stops.Push("term", func() error { p.term.End(); return nil })
	return nil
}

// runTerm returns an error when the journal can no longer write to disk. That ends the agent.
func (p *parts) runTerm(ctx context.Context) error {
	if p.term == nil {
		return nil
	}
	if err := p.term.Run(ctx); errors.Is(err, journal.ErrLost) {
		return err
	} else if err != nil {
		return fmt.Errorf("--data-dir %s: %w", p.options.DataDir, err)
	}
	return nil
}

// dropUnpinned forgets clusters whose key is not pinned, or that have another key now. The disk has such entries when
// the agent died before it recorded the pin, or before a removal was on disk.
func (p *parts) dropUnpinned() {
	for _, origin := range p.replica.Origins() {
		pinned, ok := p.membership.Trust().Key(origin)
		e, held := p.replica.Lookup(payload.ClusterKey(origin), origin)
		if !ok || held && !pinned.Equal(payload.AsKey(e.PublicKey)) {
			p.replica.Forget(origin)
		}
	}
}

// position returns how far the local API server was when something was published, as a note that is stored with it. If
// the API server is behind that note at the next start, it was restored from a backup, and what it lacks was not
// deleted.
func (p *parts) position() []byte {
	return notePosition(p.client.Positions, p.gate.Frozen,
		p.client.Clusters().Kind(), p.client.Rules().Kind(), p.client.Features().Kind())
}

// notePosition returns nil during a freeze, for which the last note stays: a note of the restored API server would hide
// the restore from the next start, which may not find the freeze recorded.
func notePosition(positions *history.Positions, frozen func() bool, kinds ...schema.GroupVersionKind) []byte {
	note, err := positions.Note(kinds...)
	if err != nil || frozen() { // asked after: a freeze begins before positions move
		return nil // encoding strings does not fail
	}
	return note
}

// acceptRestore makes durable what a confirmed restore has changed, so that the next start does not notice it again: the
// epoch, which the backup may have set back, and how far the API server is.
func (p *parts) acceptRestore(ctx context.Context) error {
	if err := p.identity.KeepEpoch(ctx, p.replica.LastEpoch()); err != nil {
		return err
	}
	return p.replica.SaveNote(ctx)
}
