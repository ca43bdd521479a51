// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package datadir is the directory that a standalone API server keeps everything in. It says where each file lies, that
// one process uses the directory at a time, and which server it belongs to; the certificates are made here, too.
//
//	lock               held by the process that uses the directory
//	server.json        format, Kubernetes version and name of the server (Record)
//	member.json        how the other servers of the same cluster reach this one (Member), unless it is alone
//	pki/               CA, serving certificate, client certificates, the key of ServiceAccount tokens
//	encryption.yaml    how Secrets are encrypted in etcd, unless --encryption-provider-config names another file
//	admin.kubeconfig   for people
//	agent.kubeconfig   for the agent of this cluster
//	etcd/              what etcd keeps
//	etcd.sock          etcd listens here, for this process and for commands of the same user
//	restoring/         is there until a restore is complete
package datadir

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/version"
)

// Format is what this version writes into the directory. A server reads its own format and older ones.
const Format = 1

const (
	dirMode  = 0o700
	fileMode = 0o600

	lockTimeout = 10 * time.Second
)

// ErrInUse is returned when another process uses the directory.
var ErrInUse = errors.New("another process uses this directory")

// Record is what the directory says of the server that it belongs to.
type Record struct {
	Format     int    `json:"format"`
	Kubernetes string `json:"kubernetes"` // version of the server that last started here, such as v1.37.2
	Name       string `json:"name,omitempty"`
	Started    bool   `json:"started,omitempty"` // etcd has been up here
}

// Dir is an open directory. It is locked until Close.
type Dir struct {
	path string
	name string // of the cluster, if it has been named
	lock *os.File

	created bool // by Empty
}

// Open creates the directory, or checks that it may be used by a server of this Kubernetes version and name. A name that
// is empty goes with any. What it refuses it leaves as it is.
func Open(ctx context.Context, path, kubernetes, name string) (*Dir, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(path, dirMode); err != nil {
		return nil, err
	}
	d := &Dir{path: path}
	if d.lock, err = os.OpenFile(d.Path("lock"), os.O_CREATE|os.O_RDWR, fileMode); err != nil {
		return nil, err
	}
	err = d.take(ctx)
	if err == nil {
		err = d.claim(kubernetes, name)
	}
	if err != nil {
		return nil, errors.Join(err, d.lock.Close())
	}
	return d, nil
}

// take waits a while for the lock: a server whose agent was killed ends a moment after it.
func (d *Dir) take(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, lockTimeout)
	defer cancel()
	tick := time.NewTicker(lockTimeout / 100)
	defer tick.Stop()
	for {
		err := syscall.Flock(int(d.lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ErrInUse
		}
	}
}

// Close lets another process use the directory.
func (d *Dir) Close() error { return d.lock.Close() }

// Path returns the path of a file in the directory.
func (d *Dir) Path(elem ...string) string {
	return filepath.Join(append([]string{d.path}, elem...)...)
}

// claim checks the record, and writes it when something in it has changed.
func (d *Dir) claim(kubernetes, name string) error {
	if exists(d.Path(restoring)) {
		return errCutOff
	}
	var have Record
	if exists(d.Path("server.json")) {
		var err error
		if have, err = d.Record(); err != nil {
			return err
		}
		if err := have.fits(kubernetes, name); err != nil {
			return err
		}
	} else if exists(d.Path("etcd")) {
		return errors.New("server.json is missing and etcd/ is there: this may be the data of another server")
	}
	want := Record{Format: Format, Kubernetes: kubernetes, Name: have.Name, Started: have.Started}
	if want.Name == "" {
		want.Name = name
	}
	d.name = want.Name
	if want == have {
		return nil
	}
	return d.writeRecord(want)
}

func (d *Dir) writeRecord(r Record) error {
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return WriteFile(d.Path("server.json"), data)
}

// CheckVersion returns an error when a server of this Kubernetes version must not read what the record is of.
func (r Record) CheckVersion(kubernetes string) error { return r.fits(kubernetes, "") }

// fits returns an error when a server of this version and name must not use the directory.
func (r Record) fits(kubernetes, name string) error {
	if r.Format > Format {
		return fmt.Errorf("it was written by a later version (format %d, not %d): run that version or a later one", r.Format, Format)
	}
	if name != "" && r.Name != "" && r.Name != name {
		return fmt.Errorf("it belongs to cluster %s: give each cluster a directory of its own, or start this one as %s", r.Name, r.Name)
	}
	have, err := version.ParseGeneric(r.Kubernetes)
	if err != nil {
		return fmt.Errorf("%s in server.json is no version: %w", r.Kubernetes, err)
	}
	mine, err := version.ParseGeneric(kubernetes)
	if err != nil {
		return err
	}
	if older := version.MajorMinor(mine.Major(), mine.Minor()); older.LessThan(version.MajorMinor(have.Major(), have.Minor())) {
		return fmt.Errorf("Kubernetes %s has written to it, and this is %s: objects of a later version are not read; run that version, or restore a snapshot that is older", r.Kubernetes, kubernetes) //nolint:staticcheck // Kubernetes is a name
	}
	return nil
}

// WriteFile replaces a file as a whole, so that a crash leaves the old or the new content, readable for the owner alone.
func WriteFile(path string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*") // mode 0600
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return SyncDir(filepath.Dir(path))
}

// CheckReplace returns an error for a path that WriteFile should not replace: a link or a device, such as /dev/stdout, or
// a directory.
func CheckReplace(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is there and no regular file: name another one", path)
	}
	return err
}

// SyncDir makes the names in a directory durable.
func SyncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
