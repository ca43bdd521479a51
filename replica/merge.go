// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"slices"
)

// Merge merges a message from a peer; msg is not kept. introducer is the pinned member that vouches for it, as for all of its delta, "" for
// news. fresh says that it was new here and is worth forwarding; pull, that something is known to be missing. In a delta only a head asks
// for a pull, since the numbers of its entries have gaps by nature.
func (r *Replica) Merge(msg []byte, introducer string) (fresh, pull bool, err error) {
	m, err := r.decode(msg)
	if err != nil {
		return false, false, err
	}
	fresh, pull, err = r.take(m, introducer)
	if epoch := r.OwnEpochSeen(); epoch > 0 {
		r.epochSeen(epoch)
	}
	return fresh, pull, err
}

// take merges a message that is decoded.
func (r *Replica) take(m *message, introducer string) (fresh, pull bool, err error) {
	if m.removal != nil {
		return r.mergeRemoval(m.removal, introducer)
	}
	known, removals := r.known(m)
	if known && (m.entry != nil || introducer == "") {
		if introducer != "" {
			r.repeated(m.entry)
		}
		return false, false, nil
	}
	if !known {
		if err := r.authenticate(m, introducer); err != nil {
			return false, errors.Is(err, ErrUnknownOrigin), err
		}
		m.detach()
	}
	if err := r.waitForDisk(); err != nil {
		return false, false, err
	}

	r.mu.Lock()
	if r.state.removals.changes != removals { // its key, perhaps, since it was checked
		r.mu.Unlock()
		return r.take(m, introducer)
	}
	r.digest = nil
	before := r.state.knowledge(m)
	out, err := r.mergeLocked(m)
	out.changes, r.state.displaced = append(out.changes, r.state.displaced...), nil
	awaited := out.fresh && m.entry != nil && m.entry.Key.Kind == KindAdmission && r.state.awaited.Take(m.entry.Key.Name)
	if now := r.state.knowledge(m); r.log != nil && (out.fresh || now != before) {
		add := r.log.AppendLater
		if now.clone != before.clone || m.entry != nil && m.entry.Key.Kind == KindAdmission {
			add = r.log.Append // nobody else may have the proof; pins that are recorded elsewhere refer to an admission
		}
		add(appendBytes(nil, opMessage, m.bytes()))
	}
	switch {
	case introducer == "":
	case m.head != nil:
		r.state.checkDelta(m.head)
	case errors.Is(err, ErrFull):
		r.state.checkRefused(m.entry)
	}
	r.mu.Unlock()
	r.tell(out.changes) // what was let go for something that found no room is gone
	if err != nil {
		return false, false, err
	}
	return out.fresh, awaited || out.gap && (out.fresh || introducer != "") && (m.head != nil || introducer == ""), nil
}

// waitForDisk lets a disk that is slow slow down those who send.
func (r *Replica) waitForDisk() error {
	r.mu.Lock()
	log := r.log
	r.mu.Unlock()
	if log == nil {
		return nil
	}
	return log.Wait()
}

func (r *Replica) mergeLocked(m *message) (outcome, error) {
	switch {
	case m.origin() == r.self && r.author == nil:
		return outcome{}, ErrNotOpen
	case m.origin() == r.self:
		return r.author.observe(m), nil
	case m.entry != nil:
		return r.state.mergeEntry(m.entry)
	default:
		return r.state.mergeHead(m.head), nil
	}
}

// Reshare is told that who admitted whom has changed: what found no room before may find some.
func (r *Replica) Reshare() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.state.pool.Reshare()
	r.state.removals.by.Reshare()
	r.digest = nil
}

// known spares the signature check of what is held, as most of what gossip brings. Of a head that closes a delta it spares no more than
// that. removals tells whether any was merged since.
func (r *Replica) known(m *message) (known bool, removals uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state.knows(m), r.state.removals.changes
}

// repeated takes note of an entry that is held, and came in a delta.
func (r *Replica) repeated(rec *record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state.repeated(rec) {
		r.digest = nil
	}
}

func (s *State) knows(m *message) bool {
	o := s.origins[m.origin()]
	if o == nil {
		return false
	}
	if m.head != nil {
		l := o.layer(m.head.Epoch)
		return l != nil && l.head != nil && l.head.hash == m.head.hash
	}
	if m.entry.Epoch < o.completed {
		held := o.withdrawn[m.entry.Key]
		return held == nil && m.entry.Status != Withdrawn || held != nil && held.hash == m.entry.hash
	}
	l := o.layer(m.entry.Epoch)
	if l == nil {
		return false
	}
	held := l.records[m.entry.Key]
	return held != nil && held.hash == m.entry.hash
}

// authenticate finds the origin's key and checks the signature. An unknown origin is introduced by its own Cluster entry, if that came
// from a pinned member.
func (r *Replica) authenticate(m *message, introducer string) error {
	origin := m.origin()
	if origin == r.self {
		return m.verify(r.public())
	}
	if key, ok := r.keyring.Key(origin); ok {
		return m.verify(key)
	}
	if introducer == "" || m.entry == nil || m.entry.Key.Kind != KindCluster {
		return fmt.Errorf("%w: %s", ErrUnknownOrigin, origin)
	}
	key := ed25519.PublicKey(slices.Clone(m.entry.PublicKey))
	if err := m.verify(key); err != nil {
		return err
	}
	if by, _ := r.keyring.Sponsor(origin, key, introducer); by != "" && r.crowded(by) {
		return fmt.Errorf("%w: introduction of %s, whose removal would find no room", ErrFull, origin)
	}
	if err := r.keyring.Introduce(origin, key, introducer); err != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.state.awaited.Note(origin)
		return fmt.Errorf("introduce %s: %w", origin, err)
	}
	return nil
}
