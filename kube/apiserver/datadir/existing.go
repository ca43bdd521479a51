// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package datadir

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// restoring is the directory in which a restore prepares what it then moves to its place. While it is there, the restore
// is not complete.
const restoring = "restoring"

// errCutOff is returned for a directory that a restore has left behind.
var errCutOff = errors.New("a restore into it was cut off: delete it and restore again")

// Existing opens the directory of a server for another command. While the server runs, the directory is its own, and
// running is true; otherwise it is locked until Close.
func Existing(path string) (d *Dir, running bool, err error) {
	if path, err = filepath.Abs(path); err != nil {
		return nil, false, err
	}
	d = &Dir{path: path}
	if _, err := d.Record(); err != nil {
		return nil, false, err
	}
	if d.lock, err = os.OpenFile(d.Path("lock"), os.O_CREATE|os.O_RDWR, fileMode); err != nil {
		return nil, false, err
	}
	err = syscall.Flock(int(d.lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	switch {
	case errors.Is(err, syscall.EWOULDBLOCK):
		return d, true, nil
	case err != nil:
		return nil, false, errors.Join(err, d.Close())
	}
	return d, false, nil
}

// Record is what server.json says.
func (d *Dir) Record() (Record, error) {
	data, err := os.ReadFile(d.Path("server.json"))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Record{}, errors.New("it is not the data directory of a server: it has no server.json")
	case err != nil:
		return Record{}, err
	}
	var r Record
	err = json.Unmarshal(data, &r)
	if err == nil && r.Format < 1 {
		err = errors.New("it has no format")
	}
	if err != nil {
		return Record{}, fmt.Errorf("%s is damaged: %w", d.Path("server.json"), err)
	}
	return r, nil
}

// Empty creates the directory for a restore, or takes one that is empty, and locks it.
func Empty(path string) (*Dir, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	there := exists(path)
	if err := os.MkdirAll(path, dirMode); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, err
	}
	if exists(filepath.Join(path, restoring)) {
		return nil, errCutOff
	}
	for _, entry := range entries {
		if entry.Name() != "lost+found" { // every new file system has one
			return nil, fmt.Errorf("it is not empty: it has %s; a restore needs an empty directory", entry.Name())
		}
	}
	d := &Dir{path: path, created: !there}
	if d.lock, err = os.OpenFile(d.Path("lock"), os.O_CREATE|os.O_EXCL|os.O_RDWR, fileMode); err != nil {
		return nil, err // another restore was faster
	}
	if err := syscall.Flock(int(d.lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(err, d.lock.Close())
	}
	if err := os.Mkdir(d.Path(restoring), dirMode); err != nil {
		return nil, errors.Join(err, d.Discard())
	}
	return d, nil
}

// Restoring returns the path of a file in the directory in which the restore prepares everything.
func (d *Dir) Restoring(elem ...string) string {
	return d.Path(append([]string{restoring}, elem...)...)
}

// Restored moves what was prepared to its place: etcd's data, the files of Identity and the record. A crash leaves either
// nothing that a server would take, or all.
func (d *Dir) Restored(files map[string][]byte, r Record) error {
	r.Format = Format
	record, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if err := os.Rename(d.Restoring("etcd"), d.Path("etcd")); err != nil {
		return err
	}
	if err := d.WriteShared(files); err != nil {
		return err
	}
	if err := WriteFile(d.Path("server.json"), record); err != nil {
		return err
	}
	return errors.Join(os.RemoveAll(d.Path(restoring)), SyncDir(d.path))
}

// Discard undoes Empty after an error, and closes the directory.
func (d *Dir) Discard() error {
	err := errors.Join(os.RemoveAll(d.Path("etcd")), os.RemoveAll(d.Path("pki")), os.RemoveAll(d.Path(fileEncryption)),
		os.RemoveAll(d.Path("server.json")), os.RemoveAll(d.Path(restoring)), os.Remove(d.Path("lock")), d.Close())
	if d.created {
		_ = os.Remove(d.path) // when nothing else is in it
	}
	return err
}
