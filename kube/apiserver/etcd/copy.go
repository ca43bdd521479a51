// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
	"go.etcd.io/raft/v3/raftpb"
	"go.uber.org/zap"
)

// CopyData copies the data of a member that does not run, such that Start with Force serves all that the member had:
// also what it was told last and not yet told to be final. Nothing that was acknowledged by this member alone, or by it and
// members that are lost, is left out. The original is only read.
func CopyData(from, to string, log *slog.Logger) error {
	err := filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, rel)
		if entry.IsDir() {
			return os.MkdirAll(target, 0o700)
		}
		switch ext := filepath.Ext(path); {
		case entry.Name() == "db", ext == ".wal", ext == ".snap", strings.HasSuffix(path, ".snap.db"):
			return copyFile(path, target)
		default:
			return nil // what etcd prepares, and clears away
		}
	})
	if err != nil {
		return err
	}
	if err := commitAll(Logger(log), filepath.Join(to, "member", "wal")); err != nil {
		return fmt.Errorf("%s: %w", filepath.Join(from, "member", "wal"), err)
	}
	return nil
}

func copyFile(from, to string) error {
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer source.Close()
	target, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(target, source)
	return errors.Join(err, target.Close())
}

// commitAll makes every entry in a write-ahead log count as committed.
func commitAll(lg *zap.Logger, dir string) error {
	snapshots, err := wal.ValidSnapshotEntries(lg, dir)
	if err != nil {
		return err
	}
	start := &walpb.Snapshot{}
	if len(snapshots) > 0 {
		start = snapshots[len(snapshots)-1]
	}
	w, state, entries, err := readLog(lg, dir, start)
	if errors.Is(err, io.ErrUnexpectedEOF) && wal.Repair(lg, dir) { // it ends in the middle of a record
		w, state, entries, err = readLog(lg, dir, start)
	}
	if err != nil {
		return err
	}
	if len(entries) > 0 {
		state.Commit = new(entries[len(entries)-1].GetIndex())
		err = w.Save(state, nil)
	}
	return errors.Join(err, w.Close())
}

func readLog(lg *zap.Logger, dir string, start *walpb.Snapshot) (*wal.WAL, *raftpb.HardState, []*raftpb.Entry, error) {
	w, err := wal.Open(lg, dir, start)
	if err != nil {
		return nil, nil, nil, err
	}
	_, state, entries, err := w.ReadAll()
	if err != nil {
		return nil, nil, nil, errors.Join(err, w.Close())
	}
	return w, state, entries, nil
}
