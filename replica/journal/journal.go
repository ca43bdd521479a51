// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
)

const (
	// maxBatch is how many bytes of operations are appended together; one alone may be larger.
	maxBatch = 256 << 10
	// maxDelay is how long an operation that may wait does so, before it is appended.
	maxDelay = 250 * time.Millisecond
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
	// Group is nil for an agent that is alone.
	Group *Group
	Log   *slog.Logger
}

// Journal is an open directory, of which the machine follows what the group makes durable. Its methods are safe for
// concurrent use.
type Journal struct {
	log       *slog.Logger
	directory directory
	lock      *os.File // of the directory
	stores    *stores
	raft      *raft.Raft
	fsm       *fsm
	mux       *mux // nil for an agent that is alone

	started         chan struct{} // closed once raft is there, or is not going to be
	stopMaintaining context.CancelFunc
	maintaining     sync.WaitGroup
	joinMu          sync.Mutex    // held while an agent is taken in
	raftEnded       chan struct{} // closed when raft has ended, and answers nothing any more

	endOnce sync.Once
	ended   chan struct{} // closed when this journal is of no use any more, for the reason err
	err     error

	unreachable outages
	commits     *commitObserver // nil for an agent that is alone
	caughtUp    atomic.Bool     // this server leads, or has what the group had a moment ago
	grown       atomic.Int64    // bytes of commands since the last snapshot
	last        atomic.Int64    // size of the last snapshot
	snapping    atomic.Bool     // a snapshot is under way
	snaps       sync.WaitGroup
}

// Open reads the directory into a machine. It says in the log what it could not use. The machine is the one that
// Options.Machine made last. Only the term of Lead appends.
func Open(ctx context.Context, o Options) (_ *Journal, err error) {
	h := directory{dir: o.Dir, log: o.Log}
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
	if err := h.countStart(); err != nil { // first: what is set aside is a lost disk, which must not keep its ID
		return nil, err
	}
	begins, err := h.compareRecord(ctx, o.Group)
	if err != nil { // as of a record that cannot be read, which says nothing about the disk
		return nil, errors.Join(err, h.startSucceeded())
	}
	j, err := open(ctx, h, o, begins)
	if errors.Is(err, errBroken) {
		if err := h.setAside(err); err != nil {
			return nil, err
		}
		if o.Group != nil { // the others know the lost disk by its ID
			h.owner.ServerID = newServerID()
			if err := h.record(); err != nil {
				return nil, err
			}
		}
		j, err = open(ctx, h, o, "")
	}
	if err != nil {
		return nil, errors.Join(err, h.startSucceeded())
	}
	if err := h.startSucceeded(); err != nil {
		return nil, errors.Join(err, j.Close())
	}
	j.lock = lock
	return j, nil
}

// open starts raft. begins is the group that this server is to begin, if any.
func open(ctx context.Context, h directory, o Options, begins string) (*Journal, error) {
	machine, err := o.Machine()
	if err != nil {
		return nil, err
	}
	s, err := openStores(h, o.Log)
	if err != nil {
		return nil, err
	}
	j := &Journal{
		log: o.Log, directory: h, stores: s, stopMaintaining: func() {}, started: make(chan struct{}), ended: make(chan struct{}),
		raftEnded: make(chan struct{}),
	}
	j.fsm = &fsm{machine: machine, applied: j.compact}
	j.last.Store(s.snapshotSize)
	if o.Group == nil {
		return j, j.startAlone(ctx)
	}
	if begins != "" {
		if err := j.bootstrap(machine, begins, o.Group.Address); err != nil {
			return nil, errors.Join(err, s.close())
		}
		if machine, err = o.Machine(); err != nil { // raft reads all of it again
			return nil, errors.Join(err, s.close())
		}
		j.fsm.machine = machine
	}
	return j, j.startGroup(ctx, o.Group)
}

// awaitAlone waits until the one server leads that there is, and has read everything.
func (j *Journal) awaitAlone(ctx context.Context) (err error) {
	select {
	case <-j.raft.LeaderCh():
	case <-j.stores.failed():
		err = j.stores.err()
	case <-ctx.Done():
		err = ctx.Err()
	case <-time.After(leadTimeout):
		err = fmt.Errorf("%w: it elects no leader", errBroken)
	}
	if err == nil {
		err = j.await(func() error { return j.raft.Barrier(0).Error() })
	}
	return errors.Join(err, j.fsm.broken())
}

// end says that this journal is of no use any more.
func (j *Journal) end(err error) {
	j.endOnce.Do(func() {
		j.err = err
		close(j.ended)
	})
}

// Adopt has another, empty machine take over the state of the present one, and follow from there.
func (j *Journal) Adopt(m Machine) error { return j.fsm.adopt(m) }

// await is the error of something asked of raft, or that of the disk: raft may wait for that one without an end, and
// take no question meanwhile. What was agreed upon and not done when raft ends, it does not answer, either. Then one
// goroutine is left behind, for each start over a disk that fails, and for an end in such a moment.
func (j *Journal) await(ask func() error) error {
	done := make(chan error, 1)
	go func() { done <- ask() }()
	select {
	case err := <-done:
		return errors.Join(err, j.stores.err())
	case <-j.stores.failed():
		return j.stores.err()
	case <-j.raftEnded:
		return ErrClosed
	}
}

// leadTimeout is longer than any disk that works takes for the few writes of an election.
const leadTimeout = time.Minute

// HandOver lets another agent lead, if one can, before this one ends: the others need not find out.
func (j *Journal) HandOver(ctx context.Context) error {
	if j.raft.State() != raft.Leader {
		return nil
	}
	done := make(chan error, 1)
	go func() { done <- j.raft.LeadershipTransfer().Error() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Close gives the directory back.
func (j *Journal) Close() error {
	j.end(ErrClosed)
	err := j.stop()
	if j.lock != nil {
		err = errors.Join(err, j.lock.Close())
	}
	return err
}

func (j *Journal) stop() error {
	j.stopMaintaining()
	j.stores.release()
	ended := make(chan error, 1)
	go func() { ended <- j.raft.Shutdown().Error() }()
	var brokenFor <-chan time.Time
	if errors.Is(j.stores.err(), errBroken) { // bolt may hold a lock for ever, see close
		brokenFor = time.After(brokenTimeout)
	}
	select {
	case err := <-ended:
		close(j.raftEnded)
		err = errors.Join(err, j.mux.end())
		j.maintaining.Wait()
		j.snaps.Wait()
		return errors.Join(err, j.stores.close())
	case <-brokenFor:
		return nil
	}
}

// brokenTimeout is how long raft may take to end over a file that made bolt panic.
const brokenTimeout = 5 * time.Second

// compact takes a snapshot, beside what goes on, once the log has grown by enough.
func (j *Journal) compact(more int) {
	if j.grown.Add(int64(more)) < max(minLog, j.last.Load()) || !j.snapping.CompareAndSwap(false, true) {
		return
	}
	j.grown.Store(0)
	j.snaps.Go(func() {
		defer j.snapping.Store(false)
		if <-j.started; j.raft == nil {
			return
		}
		if size := j.takeSnapshot(); size > 0 {
			j.last.Store(size)
		}
	})
}

// takeSnapshot returns the snapshot's size. One that fails is tried again when the log has grown further.
func (j *Journal) takeSnapshot() int64 {
	future := j.raft.Snapshot()
	err := future.Error()
	if err != nil {
		if !errors.Is(err, raft.ErrRaftShutdown) && !errors.Is(err, raft.ErrNothingNewToSnapshot) {
			j.log.Warn("the log is not compacted", "dir", j.directory.dir, "error", err)
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
