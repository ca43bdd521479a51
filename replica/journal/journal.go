// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

const (
	// maxBatch is how many bytes of operations are appended together; one alone may be larger.
	maxBatch = 256 << 10
	// maxWaiting bounds the operations that wait for the disk, in bytes: beyond it [Journal.Wait] blocks.
	maxWaiting = 8 << 20
	// minLog is how far the log grows, at least, before there is a snapshot.
	minLog = 4 << 20
)

var (
	// ErrClosed is returned once the journal is closed.
	ErrClosed = errors.New("journal is closed")
	// ErrInUse is returned for a directory that another process has open.
	ErrInUse = errors.New("directory is in use by another agent")
	// ErrOtherCluster is returned for a directory that another cluster's journal is in.
	ErrOtherCluster = errors.New("directory belongs to another cluster")
)

// Machine is what the journal makes durable. Its methods are called from one goroutine, but for
// what Snapshot returned.
type Machine interface {
	// Apply takes durable operations, in order: mine says that they were appended since Open. It
	// may keep no slice. An error means that they are of no use to this version.
	Apply(ops [][]byte, mine bool) error
	// Snapshot captures the state and returns what writes it, possibly while Apply goes on.
	Snapshot() (write func(io.Writer) error)
	// Restore replaces the state.
	Restore(snapshot io.Reader) error
}

// Options of Open.
type Options struct {
	Dir       string
	ClusterID string
	PublicKey []byte
	// Machine makes an empty machine. It is called again when what is on disk cannot be used.
	Machine func() (Machine, error)
	Log     *slog.Logger
}

// Journal is an open directory. Its methods are safe for concurrent use.
type Journal struct {
	log    *slog.Logger
	home   home
	lock   *os.File // of the directory
	stores *stores
	raft   *raft.Raft
	run    [runSize]byte // tells our commands from those of earlier runs

	mu      sync.Mutex
	room    sync.Cond // of mu: less waits, or err is set
	queue   [][]byte
	waiting int
	err     error // after which nothing becomes durable

	wake     chan struct{} // something waits, or err is set
	failed   chan struct{} // closed when err is set
	ended    chan struct{} // the writer has returned
	grown    int           // bytes of commands since the last snapshot; the writer's
	snapshot chan int64    // size of a snapshot that ended, 0 for none; nil when none is under way; the writer's
	last     int64         // size of the last snapshot; the writer's
}

// Open reads the directory into a machine and makes this process the one that appends. It says in
// the log what it could not use. The machine is the one that Options.Machine made last.
func Open(ctx context.Context, o Options) (_ *Journal, err error) {
	h := home{dir: o.Dir, log: o.Log}
	lock, err := h.lock()
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, lock.Close())
		}
	}()
	if err := h.claim(o.ClusterID, o.PublicKey); err != nil {
		return nil, err
	}
	if err := h.attempt(); err != nil {
		return nil, err
	}
	j, err := open(ctx, h, o)
	if errors.Is(err, errBroken) {
		if err := h.setAside(err); err != nil {
			return nil, err
		}
		j, err = open(ctx, h, o)
	}
	if err != nil {
		return nil, errors.Join(err, h.survive())
	}
	if err := h.survive(); err != nil {
		return nil, errors.Join(err, j.Close())
	}
	j.lock = lock
	return j, nil
}

func open(ctx context.Context, h home, o Options) (*Journal, error) {
	machine, err := o.Machine()
	if err != nil {
		return nil, err
	}
	s, err := openStores(h, o.Log)
	if err != nil {
		return nil, err
	}
	j := &Journal{
		log: o.Log, home: h, stores: s, grown: s.logSize, last: s.snapshotSize,
		wake: make(chan struct{}, 1), failed: make(chan struct{}), ended: make(chan struct{}),
	}
	j.room.L = &j.mu
	if _, err := rand.Read(j.run[:]); err != nil {
		return nil, errors.Join(err, s.close())
	}
	f := &fsm{machine: machine, run: j.run}
	if j.raft, err = start(h.owner.ServerID, f, s, o.Log); err != nil {
		return nil, errors.Join(err, s.close())
	}
	if err := j.lead(ctx); err != nil {
		return nil, errors.Join(err, j.stop())
	}
	if err := f.broken(); err != nil {
		return nil, errors.Join(err, j.stop())
	}
	go j.write()
	return j, nil
}

// lead waits until this server leads and has applied all that the log holds.
func (j *Journal) lead(ctx context.Context) error {
	select {
	case <-j.raft.LeaderCh():
	case <-j.stores.failed():
		return j.stores.err()
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(leadWithin):
		return fmt.Errorf("%w: it elects no leader", errBroken)
	}
	if err := j.await(func() error { return j.raft.Barrier(0).Error() }); err != nil {
		return fmt.Errorf("apply the log: %w", err)
	}
	return nil
}

// await is the error of something asked of raft, or that of the disk: raft may wait for that one without an end, and
// take no question meanwhile. Then one goroutine is left behind, for each start over a disk that fails.
func (j *Journal) await(ask func() error) error {
	done := make(chan error, 1)
	go func() { done <- ask() }()
	select {
	case err := <-done:
		return errors.Join(err, j.stores.err())
	case <-j.stores.failed():
		return j.stores.err()
	}
}

// leadWithin is longer than any disk that works takes for the few writes of an election.
const leadWithin = time.Minute

// Append queues an operation, which the journal keeps. It does not block.
func (j *Journal) Append(op []byte) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.err != nil {
		return
	}
	j.queue = append(j.queue, op)
	j.waiting += len(op)
	j.signal()
}

func (j *Journal) signal() {
	select {
	case j.wake <- struct{}{}:
	default:
	}
}

// Wait blocks while too much waits for the disk, and returns the error after which nothing gets there.
func (j *Journal) Wait() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	for j.waiting > maxWaiting && j.err == nil {
		j.room.Wait()
	}
	return j.err
}

// Run blocks until ctx ends, or returns the error for which nothing becomes durable any more.
func (j *Journal) Run(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-j.failed:
		return j.Wait()
	}
}

// Close writes what waits, if the disk takes it, and gives the directory back. What is appended
// later is lost.
func (j *Journal) Close() error {
	j.fail(ErrClosed)
	<-j.ended
	err := j.stop()
	if j.lock != nil {
		err = errors.Join(err, j.lock.Close())
	}
	return err
}

func (j *Journal) stop() error {
	j.stores.release()
	ended := make(chan error, 1)
	go func() { ended <- j.raft.Shutdown().Error() }()
	var brokenFor <-chan time.Time
	if errors.Is(j.stores.err(), errBroken) { // bolt may hold a lock for ever, see close
		brokenFor = time.After(brokenWithin)
	}
	select {
	case err := <-ended:
		return errors.Join(err, j.stores.close())
	case <-brokenFor:
		return nil
	}
}

// brokenWithin is how long raft may take to end over a file that made bolt panic.
const brokenWithin = 5 * time.Second

func (j *Journal) fail(err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.err == nil {
		j.err = err
		close(j.failed)
	}
	j.room.Broadcast()
	j.signal()
}

// write is the one goroutine that appends to raft.
func (j *Journal) write() {
	defer close(j.ended)
	for range j.wake {
		for ops := j.take(); len(ops) > 0; ops = j.take() {
			if err := j.append(ops); err != nil {
				j.fail(err)
				return
			}
		}
		if j.closed() {
			return
		}
	}
}

func (j *Journal) closed() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.err != nil && len(j.queue) == 0
}

// take returns the next operations to append together.
func (j *Journal) take() [][]byte {
	j.mu.Lock()
	defer j.mu.Unlock()
	n, size := 0, 0
	for n < len(j.queue) && (n == 0 || size+len(j.queue[n]) <= maxBatch) {
		size += len(j.queue[n])
		n++
	}
	ops := j.queue[:n:n]
	if j.queue = j.queue[n:]; len(j.queue) == 0 {
		j.queue = nil
	}
	j.waiting -= size
	j.room.Broadcast()
	return ops
}

func (j *Journal) append(ops [][]byte) error {
	command := encodeBatch(j.run, ops)
	refused := make(chan error, 1)
	err := j.await(func() error {
		future := j.raft.Apply(command, 0)
		if err := future.Error(); err != nil {
			return err
		}
		err, _ := future.Response().(error)
		refused <- err
		return nil
	})
	if err != nil {
		return fmt.Errorf("write the log: %w", err)
	}
	if err := <-refused; err != nil {
		return err
	}
	j.grown += len(command)
	j.compact()
	return nil
}

// compact takes a snapshot, beside the writer, once the log has grown enough.
func (j *Journal) compact() {
	select {
	case size := <-j.snapshot: // never, when it is nil
		j.snapshot, j.last = nil, max(size, j.last)
	default:
	}
	if j.snapshot != nil || j.grown < max(minLog, int(j.last)) {
		return
	}
	j.grown = 0
	done := make(chan int64, 1)
	j.snapshot = done
	go func() { done <- j.takeSnapshot() }()
}

// takeSnapshot returns the snapshot's size. One that fails is tried again when the log has grown further.
func (j *Journal) takeSnapshot() int64 {
	future := j.raft.Snapshot()
	err := future.Error()
	if err != nil {
		if !errors.Is(err, raft.ErrRaftShutdown) && !errors.Is(err, raft.ErrNothingNewToSnapshot) {
			j.log.Warn("the log is not compacted", "dir", j.home.dir, "error", err)
		}
		return 0
	}
	meta, source, err := future.Open()
	if err != nil {
		return 0
	}
	_ = source.Close()
	return meta.Size
}
