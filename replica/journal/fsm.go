// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"fmt"
	"io"
	"sync"

	"github.com/hashicorp/raft"
)

// fsm is a machine as raft sees it.
type fsm struct {
	machine Machine
	run     [runSize]byte

	mu  sync.Mutex
	err error // of the first command that was of no use
}

// Apply returns an error, or nil.
func (f *fsm) Apply(l *raft.Log) any {
	run, ops, err := decodeBatch(l.Data)
	if err == nil {
		err = f.machine.Apply(ops, run == f.run)
	}
	if err == nil {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err == nil {
		f.err = fmt.Errorf("%w: command %d of the log: %w", errBroken, l.Index, err)
	}
	return f.err
}

// broken returns the error of a command.
func (f *fsm) broken() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}

func (f *fsm) Snapshot() (raft.FSMSnapshot, error) {
	return snapshot(f.machine.Snapshot()), nil
}

func (f *fsm) Restore(from io.ReadCloser) error {
	defer from.Close()
	return f.machine.Restore(from)
}

type snapshot func(io.Writer) error

func (s snapshot) Persist(sink raft.SnapshotSink) error {
	if err := s(sink); err != nil {
		_ = sink.Cancel()
		return err
	}
	return sink.Close()
}

func (s snapshot) Release() {}
