// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	bolt "go.etcd.io/bbolt"
	"go.etcd.io/etcd/client/pkg/v3/fileutil"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
)

// ErrBroken is returned by Check for a file that etcd would stumble over.
var ErrBroken = errors.New("it is damaged: restore a snapshot into an empty directory")

// Check reads all that etcd keeps in a directory, and names the file that is damaged. It writes nothing. etcd itself
// ends the process, or crashes, where it meets a damaged page; so may this: call it in a process of its own.
func Check(dir string) error {
	files, err := filepath.Glob(filepath.Join(dir, "member", "wal", "*.wal"))
	if err != nil {
		return err
	}
	if log := filepath.Join(dir, "member", "wal"); len(files) == 0 {
		if _, err := os.Stat(log); err == nil { // etcd would begin anew
			return fmt.Errorf("%s: %w (it is empty)", log, ErrBroken)
		}
	}
	slices.Sort(files)
	for i, file := range files {
		if err := checkLog(file, i == len(files)-1); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
	file := filepath.Join(dir, "member", "snap", "db")
	if err := checkDatabase(file); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return nil
}

// checkLog reads a file of the write-ahead log. The last one may end in the middle of a record, which nobody was told
// of.
func checkLog(path string, last bool) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	decoder := wal.NewDecoder(fileutil.NewFileReader(f))
	for {
		var record walpb.Record
		err := decoder.Decode(&record)
		switch {
		case errors.Is(err, io.EOF), last && errors.Is(err, io.ErrUnexpectedEOF):
			return nil
		case err != nil:
			return fmt.Errorf("%w (%w at byte %d)", ErrBroken, err, decoder.LastOffset())
		case record.GetType() == wal.CrcType:
			if crc := decoder.LastCRC(); crc != 0 && record.Validate(crc) != nil {
				return fmt.Errorf("%w (wrong checksum at byte %d)", ErrBroken, decoder.LastOffset())
			}
			decoder.UpdateCRC(record.GetCrc())
		case record.GetType() < wal.MetadataType || record.GetType() > wal.SnapshotType:
			return fmt.Errorf("%w (record of unknown type %d at byte %d)", ErrBroken, record.GetType(), decoder.LastOffset())
		}
	}
}

func checkDatabase(path string) error {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil // etcd was killed before it made one
	}
	db, err := bolt.Open(path, 0o600, &bolt.Options{ReadOnly: true})
	if err != nil {
		return fmt.Errorf("%w (%w)", ErrBroken, err)
	}
	defer db.Close()
	return db.View(func(tx *bolt.Tx) error {
		var first error
		for err := range tx.Check() { // to the end, or its goroutine stays
			if first == nil {
				first = fmt.Errorf("%w (%w)", ErrBroken, err)
			}
		}
		return first
	})
}
