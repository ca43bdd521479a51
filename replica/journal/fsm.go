// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"bytes"
	"fmt"
	"io"
	"sync"

	"github.com/hashicorp/raft"
)

// fsm is a machine as raft sees it.
type fsm struct {
	applied func(bytes int) // is told of each command

	machineMu sync.Mutex
	machine   Machine

	mu  sync.Mutex
	run [runSize]byte // of the term that this agent leads; zero when it leads none
	err error         // of the first command that was of no use
}

// Apply returns an error, or nil.
func (f *fsm) Apply(l *raft.Log) any {
	if f.applied != nil {
		defer f.applied(len(l.Data))
	}
	run, ops, err := decodeBatch(l.Data)
	if err == nil {
		f.machineMu.Lock()
		err = f.machine.Apply(ops, run == f.current())
		f.machineMu.Unlock()
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

// adopt moves the state to another machine, between two commands.
func (f *fsm) adopt(m Machine) error {
	f.machineMu.Lock()
	defer f.machineMu.Unlock()
	var state bytes.Buffer
	if err := f.machine.Snapshot()(&state); err != nil {
		return err
	}
	if err := m.Restore(&state); err != nil {
		return err
	}
	f.machine = m
	return nil
}

// setRun tells which term's commands are this agent's.
func (f *fsm) setRun(run [runSize]byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.run = run
}

func (f *fsm) current() [runSize]byte {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.run
}

// broken returns the error of a command.
func (f *fsm) broken() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}

// Snapshot is refused once a command was of no use: what the machine came to lacks that one, and the log that has it goes
// after a snapshot.
func (f *fsm) Snapshot() (raft.FSMSnapshot, error) {
	if err := f.broken(); err != nil {
		return nil, err
	}
	f.machineMu.Lock()
	defer f.machineMu.Unlock()
	return snapshot(f.machine.Snapshot()), nil
}

func (f *fsm) Restore(from io.ReadCloser) error {
	defer from.Close()
	f.machineMu.Lock()
	defer f.machineMu.Unlock()
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
