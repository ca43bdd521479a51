// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

// lockTimeout is how long an agent that was just killed may take to let go of the file.
const lockTimeout = 2 * time.Second

// currentTerm is raft's name for it.
const currentTerm = "CurrentTerm"

// stores is what raft writes to. The first write that fails is the last one: what raft says it did after that is
// not on disk, and nobody may hear of it.
type stores struct {
	*raftboltdb.BoltStore

	snapshots    *raft.FileSnapshotStore
	shared       bool          // with other agents
	snapshotSize int64         // of the newest one, 0 for none
	deleted      atomic.Uint64 // the end of what was deleted last, by compaction or for what others agreed upon

	mu       sync.Mutex
	broken   error
	running  atomic.Bool   // raft has goroutines, whose panics nobody can catch
	down     chan struct{} // closed when broken is set
	released chan struct{} // closed when raft is about to end
}

// hasState says whether raft has kept anything here.
func (s *stores) hasState() (has bool, err error) {
	err = guarded(func() (err error) {
		has, err = raft.HasExistingState(s, s, s.snapshots)
		return err
	})
	return has, err
}

// openStores reads all that is there, since raft ends the process when it meets something that it cannot read.
func openStores(h directory, log *slog.Logger) (_ *stores, err error) {
	s := &stores{down: make(chan struct{}), released: make(chan struct{})}
	defer func() {
		if err != nil && s.BoltStore != nil {
			_ = s.close()
		}
	}()
	if err := os.MkdirAll(h.path(raftDir), 0o700); err != nil {
		return nil, err
	}
	if err := s.openSnapshots(h.path(raftDir), log); err != nil {
		return nil, err
	}
	if err := s.openLog(h.path(raftDir, "log.db")); err != nil {
		return nil, err
	}
	if err := guarded(s.verify); err != nil {
		return nil, err
	}
	return s, nil
}

func (s *stores) openLog(path string) error {
	if err := checkMetas(path); err != nil {
		return err
	}
	err := guarded(func() (err error) {
		s.BoltStore, err = raftboltdb.New(raftboltdb.Options{Path: path, BoltOptions: &bbolt.Options{Timeout: lockTimeout}})
		return err
	})
	switch {
	case err == nil, isSystem(err), errors.Is(err, errBroken):
		return err
	case errors.Is(err, bolterrors.ErrTimeout):
		return ErrInUse
	}
	return fmt.Errorf("%w: log.db: %w", errBroken, err)
}

// isSystem tells what the operating system refused from what bolt did not understand.
func isSystem(err error) bool {
	_, ok := errors.AsType[*fs.PathError](err)
	return ok
}

// guarded turns a panic into an error. bolt panics on pages that make no sense, and a mapped file that is too short
// faults.
func guarded(f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%w: %v", errBroken, r)
		}
	}()
	return f()
}

func (s *stores) openSnapshots(dir string, log *slog.Logger) error {
	unfinished, err := filepath.Glob(filepath.Join(dir, "snapshots", "*.tmp"))
	if err != nil {
		return err
	}
	for _, path := range unfinished { // of a crash; raft would leave them there
		if err := os.RemoveAll(path); err != nil {
			return err
		}
	}
	s.snapshots, err = raft.NewFileSnapshotStoreWithLogger(dir, 1, newRaftLog(log))
	return err
}

// verify reads the newest snapshot and the log to the end.
func (s *stores) verify() error {
	index, err := s.verifySnapshot()
	if err != nil {
		return err
	}
	first, err := s.FirstIndex()
	if err != nil {
		return fmt.Errorf("%w: %w", errBroken, err)
	}
	last, err := s.LastIndex()
	if err != nil {
		return fmt.Errorf("%w: %w", errBroken, err)
	}
	if _, err := s.Get([]byte(currentTerm)); index > 0 && err != nil {
		return fmt.Errorf("%w: log.db lacks what the snapshot follows", errBroken)
	}
	if last < first { // its key is damaged, and raft would take the log for an empty one
		return fmt.Errorf("%w: the log begins at %d and ends at %d", errBroken, first, last)
	}
	if first > index+1 {
		return fmt.Errorf("%w: the log begins at %d and the snapshot ends at %d", errBroken, first, index)
	}
	for i := max(first, 1); i <= last; i++ {
		var entry raft.Log
		if err := s.GetLog(i, &entry); err != nil || entry.Index != i {
			return fmt.Errorf("%w: entry %d of the log: %w", errBroken, i, err)
		}
		if entry.Type != raft.LogCommand {
			continue
		}
		if _, _, err := decodeBatch(entry.Data); err != nil {
			return fmt.Errorf("entry %d of the log: %w", i, err)
		}
	}
	return nil
}

// verifySnapshot returns the index that the newest snapshot goes up to.
func (s *stores) verifySnapshot() (index uint64, err error) {
	list, err := s.snapshots.List()
	if err != nil {
		return 0, err
	}
	if len(list) == 0 {
		return 0, nil
	}
	meta, source, err := s.snapshots.Open(list[0].ID) // with its checksum
	if err != nil {
		return 0, fmt.Errorf("%w: snapshot: %w", errBroken, err)
	}
	s.snapshotSize = meta.Size
	return meta.Index, source.Close()
}

// outside says that the index is before or behind the log: in a group a follower gets what was compacted as a snapshot,
// and what it lacks from the leader.
func (s *stores) outside(index uint64) bool {
	var first, last uint64
	err := guarded(func() (err error) {
		if first, err = s.FirstIndex(); err == nil {
			last, err = s.LastIndex()
		}
		return err
	})
	return err == nil && (index < first || index > last)
}

// recordFailure remembers the first write that failed.
func (s *stores) recordFailure(err error) error {
	if err == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken == nil {
		s.broken = err
		close(s.down)
	}
	return err
}

// err is the first write that failed, if one did.
func (s *stores) err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.broken
}

func (s *stores) failed() <-chan struct{} { return s.down }

// release lets raft end.
func (s *stores) release() { close(s.released) }

// close gives the file back. After a panic bolt may hold a lock for ever: then the end of the process does.
func (s *stores) close() error {
	if errors.Is(s.err(), errBroken) {
		return nil
	}
	return s.Close()
}

func (s *stores) StoreLog(log *raft.Log) error { return s.StoreLogs([]*raft.Log{log}) }

// StoreLogs keeps the log without a gap. After the snapshot of another agent raft goes on behind that, and leaves the end
// of what was there before: which is of no use, since the snapshot covers it, and may be what nobody agreed upon.
func (s *stores) StoreLogs(logs []*raft.Log) error {
	return s.write(func() error {
		last, err := s.LastIndex()
		if err != nil {
			return err
		}
		if last > 0 && len(logs) > 0 && logs[0].Index > last+1 {
			first, err := s.FirstIndex()
			if err != nil {
				return err
			}
			if err := s.BoltStore.DeleteRange(first, last); err != nil {
				return err
			}
		}
		return s.BoltStore.StoreLogs(logs)
	})
}

func (s *stores) DeleteRange(first, last uint64) error {
	s.deleted.Store(last)
	return s.write(func() error { return s.BoltStore.DeleteRange(first, last) })
}

// Set is for the vote, which raft does not give when it cannot be written.
func (s *stores) Set(key, value []byte) error {
	return s.write(func() error { return s.BoltStore.Set(key, value) })
}

// SetUint64 is for the term, and raft ends the process when it cannot be written. So raft waits here for its own end.
func (s *stores) SetUint64(key []byte, value uint64) error {
	err := s.write(func() error { return s.BoltStore.SetUint64(key, value) })
	if err == nil || string(key) != currentTerm || !s.running.Load() {
		return err
	}
	<-s.released
	return nil
}

// GetLog is of entries that are there, and raft ends the process when they are not: the same. But the oldest one, which
// raft looks at for a metric, may be compacted meanwhile.
func (s *stores) GetLog(index uint64, entry *raft.Log) error {
	err := guarded(func() error { return s.BoltStore.GetLog(index, entry) })
	if err == nil || !s.running.Load() {
		return err
	}
	if errors.Is(err, raft.ErrLogNotFound) && (index <= s.deleted.Load() || s.shared && s.outside(index)) {
		return err
	}
	_ = s.recordFailure(fmt.Errorf("%w: entry %d of the log: %w", errBroken, index, err))
	<-s.released
	*entry = raft.Log{Index: index, Type: raft.LogNoop}
	return nil
}

func (s *stores) write(f func() error) error {
	if err := s.err(); err != nil {
		return err
	}
	return s.recordFailure(guarded(f))
}
