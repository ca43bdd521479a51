// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/roster-mesh/roster/kube/apiserver/datadir"
	"github.com/roster-mesh/roster/kube/apiserver/etcd"
	"github.com/roster-mesh/roster/kube/apiserver/waiting"
)

// currentTimeout bounds the wait for a member to be as far as the others. Without a majority it never is.
const currentTimeout = 5 * time.Second

// SaveOptions of Save. All are required.
type SaveOptions struct {
	DataDir string
	File    string // is replaced as a whole
	Now     time.Time
	// Check is etcd.Check for a directory, or the same in a process of its own.
	Check func(ctx context.Context, dir string) error
	Log   *slog.Logger
}

// Save saves what the server of a data directory has. A server that runs goes on; of one that does not run, a copy is
// started for a moment, without the API. It returns the size of the file in bytes.
func Save(ctx context.Context, o SaveOptions) (int64, error) {
	if err := datadir.CheckReplace(o.File); err != nil {
		return 0, fmt.Errorf("save: %w", err)
	}
	dir, running, err := datadir.Existing(o.DataDir)
	if err != nil {
		return 0, fmt.Errorf("--data-dir %s: %w", o.DataDir, err)
	}
	defer dir.Close()
	client, done, err := o.client(ctx, dir, running)
	if err != nil {
		return 0, fmt.Errorf("--data-dir %s: %w", o.DataDir, err)
	}
	defer done()
	size, err := o.write(ctx, dir, client)
	if err != nil {
		return 0, fmt.Errorf("save %s: %w", o.File, err)
	}
	return size, nil
}

// client connects to the server that runs, or to one that it starts on a copy of the data.
func (o *SaveOptions) client(ctx context.Context, dir *datadir.Dir, running bool) (_ *clientv3.Client, done func(), err error) {
	if !running {
		return o.fromCopy(ctx, dir)
	}
	client, err := etcd.Dial(ctx, dir.Path("etcd"), o.Log)
	if err != nil {
		return nil, nil, err
	}
	reading, cancel := context.WithTimeout(ctx, currentTimeout)
	defer cancel()
	if _, err := client.Get(reading, "/"); err != nil {
		o.Log.Warn("the servers of this cluster have no majority: this is what the server of this directory has", "error", err)
	}
	return client, func() { _ = client.Close() }, nil
}

// fromCopy connects to an etcd on a copy of the data, beside the file. The original is only read.
func (o *SaveOptions) fromCopy(ctx context.Context, dir *datadir.Dir) (*clientv3.Client, func(), error) {
	if !dir.HasData() {
		return nil, nil, errors.New("it has no data: the server has not yet started, or its etcd is another one's (--etcd-servers)")
	}
	if err := o.Check(ctx, dir.Path("etcd")); err != nil {
		return nil, nil, err
	}
	c := &copied{}
	client, err := c.start(ctx, o, dir)
	if err != nil {
		c.remove()
		return nil, nil, fmt.Errorf("its data are copied beside %s: %w", o.File, err)
	}
	return client, c.remove, nil
}

// copied is etcd on a copy of the data.
type copied struct{ undo []func() }

func (c *copied) start(ctx context.Context, o *SaveOptions, dir *datadir.Dir) (*clientv3.Client, error) {
	temp, err := os.MkdirTemp(filepath.Dir(o.File), ".roster-snapshot-*")
	if err != nil {
		return nil, err
	}
	c.undo = append(c.undo, func() { _ = os.RemoveAll(temp) })
	data := filepath.Join(temp, "etcd")
	o.Log.Info("the server does not run: its data are copied and read", "directory", dir.Path("etcd"))
	if err := etcd.CopyData(dir.Path("etcd"), data, o.Log); err != nil {
		return nil, err
	}
	server, err := etcd.Start(ctx, etcd.Options{Dir: data, Force: true, Log: o.Log})
	if err != nil {
		return nil, err
	}
	c.undo = append(c.undo, func() { _ = server.Close() })
	client, err := etcd.Dial(ctx, data, o.Log)
	if err != nil {
		return nil, err
	}
	c.undo = append(c.undo, func() { _ = client.Close() })
	return client, nil
}

func (c *copied) remove() {
	for _, step := range slices.Backward(c.undo) {
		step()
	}
}

// write replaces the file as a whole.
func (o *SaveOptions) write(ctx context.Context, dir *datadir.Dir, client *clientv3.Client) (int64, error) {
	f, err := os.CreateTemp(filepath.Dir(o.File), "."+filepath.Base(o.File)+".*") // mode 0600
	if err != nil {
		return 0, err
	}
	err = o.writeTo(ctx, f, dir, client)
	size, err2 := f.Seek(0, io.SeekCurrent)
	if err = errors.Join(err, err2, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), o.File)
	}
	if err != nil {
		return 0, errors.Join(err, os.Remove(f.Name()))
	}
	return size, datadir.SyncDir(filepath.Dir(o.File))
}

func (o *SaveOptions) writeTo(ctx context.Context, to io.Writer, dir *datadir.Dir, client *clientv3.Client) error {
	record, err := dir.Record()
	if err != nil {
		return err
	}
	files, err := dir.Identity()
	if err != nil {
		return err
	}
	encoded, err := json.Marshal(record)
	if err != nil {
		return err
	}
	w := newWriter(to, o.Now)
	if err := w.add(nameRecord, int64(len(encoded)), bytes.NewReader(encoded)); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := w.add(name, int64(len(files[name])), bytes.NewReader(files[name])); err != nil {
			return err
		}
	}
	from, size, err := stream(ctx, client)
	if err != nil {
		return err
	}
	if err := w.add(nameDatabase, size, progress(size, from, o.Log)); err != nil {
		return err
	}
	return w.close()
}

// stream reads etcd's database with its checksum at the end. The size is known from the first message.
func stream(ctx context.Context, client *clientv3.Client) (io.Reader, int64, error) {
	messages, err := etcdserverpb.NewMaintenanceClient(client.ActiveConnection()).Snapshot(ctx, &etcdserverpb.SnapshotRequest{})
	if err != nil {
		return nil, 0, err
	}
	first, err := messages.Recv()
	if err != nil {
		return nil, 0, err
	}
	size := int64(len(first.Blob)) + int64(first.RemainingBytes) + sha256.Size
	return &blobs{next: messages.Recv, blob: first.Blob}, size, nil
}

// blobs reads messages as one text.
type blobs struct {
	next func() (*etcdserverpb.SnapshotResponse, error)
	blob []byte
}

// Read implements io.Reader.
func (b *blobs) Read(p []byte) (int, error) {
	for len(b.blob) == 0 {
		message, err := b.next()
		if err != nil {
			return 0, err // io.EOF after the last one
		}
		b.blob = message.Blob
	}
	n := copy(p, b.blob)
	b.blob = b.blob[n:]
	return n, nil
}

// progress says how far a reader is, when that takes long.
func progress(size int64, from io.Reader, log *slog.Logger) io.Reader {
	const mebi = 1 << 20
	said, done := time.Now(), int64(0)
	return readerFunc(func(p []byte) (int, error) {
		n, err := from.Read(p)
		done += int64(n)
		if time.Since(said) >= waiting.Slow {
			said = time.Now()
			log.Info("saving", "MiB", done/mebi, "of", size/mebi)
		}
		return n, err
	})
}

type readerFunc func([]byte) (int, error)

// Read implements io.Reader.
func (f readerFunc) Read(p []byte) (int, error) { return f(p) }
