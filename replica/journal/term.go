// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// ErrLost is returned once another agent may lead the group.
var ErrLost = errors.New("this agent leads the group no more")

// Term is the time for which this agent leads the group, and the one way to append.
type Term struct {
	journal  *Journal
	raftTerm uint64        // raft's
	run      [runSize]byte // tells its commands from those of other terms

	mu      sync.Mutex
	room    sync.Cond // of mu: less waits, or err is set
	waiting waiting
	err     error // after which nothing becomes durable

	wake  chan struct{} // it is due, or err is set
	ended chan struct{} // closed when err is set
	done  sync.WaitGroup
}

// waiting is the operations that wait for the disk.
type waiting struct {
	ops   [][]byte
	size  int  // in bytes
	due   bool // they are to be written now
	timed bool // late will be called
}

// Lead blocks until this agent leads the group, and the machine has applied all that the group made durable
// before. A term must be ended.
func (j *Journal) Lead(ctx context.Context) (*Term, error) {
	for {
		t := &Term{journal: j, wake: make(chan struct{}, 1), ended: make(chan struct{})}
		t.room.L = &t.mu
		if _, err := rand.Read(t.run[:]); err != nil {
			return nil, err
		}
		if err := j.awaitLeadership(ctx); err != nil {
			return nil, err
		}
		t.raftTerm = j.raft.CurrentTerm()
		err := j.await(func() error { return j.raft.Barrier(0).Error() })
		switch {
		case j.stores.err() != nil:
			return nil, fmt.Errorf("apply the log: %w", err)
		case err != nil:
			continue // lost again already
		}
		if err := j.fsm.broken(); err != nil {
			return nil, err
		}
		j.fsm.setRun(t.run)
		t.done.Go(t.write)
		t.done.Go(t.watch)
		return t, nil
	}
}

// awaitLeadership returns when this agent leads as far as it knows.
func (j *Journal) awaitLeadership(ctx context.Context) error {
	for j.raft.State() != raft.Leader {
		select {
		case <-j.raft.LeaderCh():
		case <-j.stores.failed():
			return j.stores.err()
		case <-j.ended:
			return j.err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// watch ends the term when another one has begun.
func (t *Term) watch() {
	r := t.journal.raft
	for r.State() == raft.Leader && r.CurrentTerm() == t.raftTerm {
		select {
		case <-r.LeaderCh():
		case <-t.ended:
			return
		}
	}
	if err := t.journal.stores.err(); err != nil {
		t.fail(fmt.Errorf("write the log: %w", err))
	}
	t.fail(ErrLost)
}

// Append queues an operation, which the journal keeps. It does not block.
func (t *Term) Append(op []byte) { t.enqueue(op, true) }

// AppendLater is Append of an operation that first waits for others, for up to [maxDelay]. So they share commits of the disk, which is
// what everything else on that disk waits for.
func (t *Term) AppendLater(op []byte) { t.enqueue(op, false) }

func (t *Term) enqueue(op []byte, now bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err != nil {
		return
	}
	w := &t.waiting
	w.ops, w.size = append(w.ops, op), w.size+len(op)
	switch {
	case now || w.size >= maxBatch:
		w.due = true
		t.signal()
	case !w.due && !w.timed:
		w.timed = true
		time.AfterFunc(maxDelay, t.late)
	}
}

// late is called once something may have waited for long enough.
func (t *Term) late() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.waiting.due, t.waiting.timed = true, false
	t.signal()
}

func (t *Term) signal() {
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// Wait blocks while too much waits for the disk, and returns the error after which nothing gets there.
func (t *Term) Wait() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	for t.waiting.size > maxWaiting && t.err == nil {
		t.room.Wait()
	}
	return t.err
}

// Run blocks until ctx ends, or returns the error for which nothing becomes durable any more: ErrLost, or that
// of the disk.
func (t *Term) Run(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-t.ended:
		return t.Wait()
	}
}

// End writes what waits, if that is possible. What is appended later is lost.
func (t *Term) End() {
	t.fail(ErrClosed)
	t.done.Wait()
	t.journal.fsm.setRun([runSize]byte{})
}

func (t *Term) fail(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err == nil {
		t.err, t.waiting.due = err, true
		close(t.ended)
	}
	t.room.Broadcast()
	t.signal()
}

// write is the one goroutine that appends to raft.
func (t *Term) write() {
	for range t.wake {
		for ops := t.take(); len(ops) > 0; ops = t.take() {
			if err := t.append(ops); err != nil {
				t.fail(err)
				return
			}
		}
		if t.closed() {
			return
		}
	}
}

func (t *Term) closed() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.err != nil && len(t.waiting.ops) == 0
}

// take returns the next operations to append together, none while nothing is due.
func (t *Term) take() [][]byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	w := &t.waiting
	if !w.due {
		return nil
	}
	n, size := 0, 0
	for n < len(w.ops) && (n == 0 || size+len(w.ops[n]) <= maxBatch) {
		size += len(w.ops[n])
		n++
	}
	ops := w.ops[:n:n]
	w.size -= size
	if w.ops = w.ops[n:]; len(w.ops) == 0 {
		w.ops, w.due = nil, false
	}
	t.room.Broadcast()
	return ops
}

func (t *Term) append(ops [][]byte) error {
	command := encodeBatch(t.run, ops)
	refused := make(chan error, 1)
	err := t.journal.await(func() error {
		future := t.journal.raft.Apply(command, 0)
		if err := future.Error(); err != nil {
			return err
		}
		err, _ := future.Response().(error)
		refused <- err
		return nil
	})
	if err != nil {
		if t.journal.stores.err() == nil {
			return fmt.Errorf("%w: %w", ErrLost, err)
		}
		return fmt.Errorf("write the log: %w", err)
	}
	if err := <-refused; err != nil {
		return err
	}
	return nil
}
