// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"maps"

	"google.golang.org/protobuf/encoding/protowire"
)

// Log makes operations durable, in the order in which they are appended, and then hands them to
// [Replica.Apply]. It must hand over all that an earlier run appended before [Replica.Open].
//
// An operation is a message as its origin signed it, so that applying it takes no key, and
// applying it twice changes nothing. What a peer sent is merged, and forwarded, before it is
// durable: its origin has it. What we sign is told to nobody before it is durable, so that a
// number is used once, whatever line the process dies at.
//
//	peer's message ──► merge ──► forward, append ─ ─ ─► durable, with others
//	own change ──► sign ──► append ──► durable ──► merge, broadcast
type Log interface {
	// Append hands over an operation. It is called with locks held, and must not block.
	Append(op []byte)
	// AppendLater is Append of what nobody waits for, and what its origin or peers have if a crash loses it: it may wait for others for a while.
	AppendLater(op []byte)
	// Wait blocks while too much waits for the disk, and returns the error after which nothing gets
	// there any more.
	Wait() error
}

// ErrNotOpen is returned for an own entry before [Replica.Open].
var ErrNotOpen = errors.New("replica is not open for own entries yet")

// Fields of an operation: one of them.
const (
	opMessage protowire.Number = iota + 1
	opForget
	opNote
)

// Open begins an epoch of our own, or goes on with the newest that is held. Without a log nothing outlives the process.
func (r *Replica) Open(epoch uint64, log Log) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if last := r.state.lastEpoch(); epoch < last {
		return fmt.Errorf("%w: %d after %d", ErrEpoch, epoch, last)
	}
	draft := r.state
	if log != nil {
		draft = r.state.draft()
	}
	author, err := newAuthor(draft, r.key, epoch)
	if err != nil {
		return err
	}
	r.state.origin(r.self).open(epoch)
	r.author, r.log, r.digest, r.notes.last = author, log, nil, r.state.note
	return nil
}

// LastEpoch returns the newest epoch of our own of which something is held; 0 is none.
func (r *Replica) LastEpoch() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state.lastEpoch()
}

func (s *State) lastEpoch() uint64 {
	o := s.origins[s.self]
	if o == nil || len(o.layers) == 0 {
		return 0
	}
	return o.layers[len(o.layers)-1].epoch
}

// draft is a state with our own entries alone, to sign further ones in: they are in the other state once they are durable.
func (s *State) draft() *State {
	d := newState(s.self, s.limits)
	o := s.origins[s.self]
	if o == nil {
		return d
	}
	c := *o
	c.state, c.summary, c.withdrawn, c.evicted = d, nil, maps.Clone(o.withdrawn), maps.Clone(o.evicted)
	c.layers = make([]*layer, 0, len(o.layers))
	for _, l := range o.layers {
		layer := *l
		layer.records, layer.pending = maps.Clone(l.records), maps.Clone(l.pending)
		c.layers = append(c.layers, &layer)
	}
	d.origins[s.self] = &c
	return d
}

// logOwnLocked hands own messages to the log, or returns them for broadcast when there is none.
func (r *Replica) logOwnLocked(msgs [][]byte) [][]byte {
	r.digest = nil
	if r.log == nil {
		return msgs
	}
	if len(msgs) == 0 {
		return nil
	}
	r.appendNoteLocked() // first, or an end between two commits would leave what was told without it
	for _, msg := range msgs {
		r.log.Append(appendBytes(nil, opMessage, msg))
	}
	return nil
}

// Forget lets go of all that is held of another origin, as if it had never been heard of.
func (r *Replica) Forget(origin string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state.origins[origin] == nil || origin == r.self {
		return
	}
	r.state.forget(origin)
	r.digest = nil
	if r.log != nil {
		r.log.Append(appendBytes(nil, opForget, []byte(origin)))
	}
}

func (s *State) forget(origin string) {
	s.pool.Forget(origin)
	delete(s.origins, origin)
	s.sorted = nil
}

// Apply takes operations that are durable now, from one goroutine. mine says that this run appended them; then what peers sent is merged
// already, and what we signed is broadcast. Its error says that the log was not written by this version.
func (r *Replica) Apply(ops [][]byte, mine bool) error {
	var own [][]byte
	r.mu.Lock()
	for _, op := range ops {
		msg, err := r.applyLocked(op, mine)
		if err != nil {
			r.mu.Unlock()
			return err
		}
		if msg != nil {
			own = append(own, msg)
		}
	}
	r.digest, r.state.displaced = nil, nil
	r.mu.Unlock()
	if len(own) > 0 {
		r.broadcast(own...)
	}
	return nil
}

// applyLocked returns the message when it is to be broadcast.
func (r *Replica) applyLocked(op []byte, mine bool) ([]byte, error) {
	f := reader{rest: op}
	msg, forget, note := f.bytes(opMessage, MaxMessage), f.bytes(opForget, MaxOrigin), f.bytes(opNote, maxNote)
	if err := f.done(); err != nil {
		return nil, fmt.Errorf("operation: %w", err)
	}
	switch {
	case note != nil:
		r.state.note = bytes.Clone(note)
		if mine {
			r.notes.oneIsDurable()
		}
		return nil, nil
	case msg == nil:
		if !mine {
			r.state.forget(string(forget))
		}
		return nil, nil
	}
	if mine && Origin(msg) != r.self {
		return nil, nil // merged already
	}
	m, err := r.decode(msg)
	if err == nil && m.removal != nil {
		err = fmt.Errorf("%w: removal", ErrMalformed) // they are kept elsewhere
	}
	if err != nil {
		return nil, fmt.Errorf("operation: %w", err)
	}
	if held := r.draftedLocked(m); held != nil {
		m.entry = held
	} else {
		m.detach()
	}
	if m.head != nil {
		r.state.mergeHead(m.head)
	} else if _, err := r.state.mergeEntry(m.entry); err != nil && !errors.Is(err, ErrFull) {
		return nil, err
	}
	if !mine {
		return nil, nil
	}
	return msg, nil
}

// draftedLocked is the record that an own message was made from, which need not be kept twice.
func (r *Replica) draftedLocked(m *message) *record {
	if r.author == nil || m.entry == nil || m.entry.Origin != r.self {
		return nil
	}
	l := r.author.origin().layer(m.entry.Epoch)
	if l == nil {
		return nil
	}
	if held := l.records[m.entry.Key]; held != nil && held.hash == m.entry.hash && bytes.Equal(held.msg, m.entry.msg) {
		return held
	}
	return nil
}

// ownLocked is what we say of ourselves, durable or not.
func (r *Replica) ownLocked() *origin {
	if r.author != nil {
		return r.author.origin()
	}
	return r.state.origins[r.self]
}

// originLocked is what is held of an origin, of ourselves what we say now.
func (r *Replica) originLocked(id string) *origin {
	if id == r.self {
		return r.ownLocked()
	}
	return r.state.origins[id]
}

// knowledge is what a message may change, beside the contents, that is worth to be durable.
type knowledge struct {
	forgotten, frontier uint64
	clone               Clone
}

func (s *State) knowledge(m *message) (k knowledge) {
	o := s.origins[m.origin()]
	if o == nil {
		return k
	}
	k.forgotten = o.forgotten
	if o.clone != nil {
		k.clone = *o.clone
	}
	if m.entry != nil {
		if l := o.layer(m.entry.Epoch); l != nil {
			k.frontier = l.frontier
		}
	}
	return k
}

func (r *Replica) public() ed25519.PublicKey { return r.key.Public().(ed25519.PublicKey) }

// maxNote bounds a note.
const maxNote = 4 << 10

// notes are what is durable beside own entries, see [Options]. Replica.mu guards them.
type notes struct {
	present           func() []byte // makes a note
	last              []byte        // the last one that was appended
	appended, durable int           // how many this run appended, and how many of those are durable
	news              chan struct{} // closed, and replaced, with each that is durable
}

// oneIsDurable takes a note of this run that became durable.
func (n *notes) oneIsDurable() {
	n.durable++
	close(n.news)
	n.news = make(chan struct{})
}

// appendNoteLocked appends the present note, unless it says what the last one does.
func (r *Replica) appendNoteLocked() {
	if note := r.notes.present(); len(note) > 0 && len(note) <= maxNote && !bytes.Equal(note, r.notes.last) {
		r.notes.last, r.notes.appended = note, r.notes.appended+1
		r.log.Append(appendBytes(nil, opNote, note))
	}
}

// SaveNote makes the present note durable, and returns when it is. Without a log it does nothing. The error is that of
// ctx, which must end when the log can no longer write.
func (r *Replica) SaveNote(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.log == nil {
		return nil
	}
	r.appendNoteLocked()
	for last := r.notes.appended; r.notes.durable < last; {
		durable := r.notes.news
		r.mu.Unlock()
		select {
		case <-durable:
			r.mu.Lock()
		case <-ctx.Done():
			r.mu.Lock()
			return ctx.Err()
		}
	}
	return nil
}

// Note returns the last note that is durable, see [Options].
func (r *Replica) Note() []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state.note
}
