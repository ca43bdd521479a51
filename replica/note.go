// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"bytes"
	"context"
)

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
