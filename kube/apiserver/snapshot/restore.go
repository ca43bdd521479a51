// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"go.etcd.io/etcd/etcdutl/v3/snapshot"
	"go.uber.org/zap"

	"github.com/roster-mesh/roster/kube/apiserver/datadir"
	"github.com/roster-mesh/roster/kube/apiserver/etcd"
	"github.com/roster-mesh/roster/kube/apiserver/waiting"
)

// A restored server's resourceVersion is ahead of the snapshot's by revisionBump and bumpPerSecond for each second since
// it was saved. Older ones count as compacted. So no watch of the old server goes on, and no client sees a resourceVersion
// go back: also when the same snapshot is restored once more, after the server of the first restore has been written to.
// Roster's agents, which know that no server is written to that fast (kube/history: 10,000 a second), notice each restore.
// They know revisions up to 10^14, so the time that counts is bounded.
const (
	revisionBump  = 10_000_000_000
	bumpPerSecond = 100_000
	bumpAtMost    = 5 * 365 * 24 * time.Hour
)

// ahead is by how much the resourceVersion rises in a restore.
func ahead(saved, now time.Time) uint64 {
	age := min(max(0, now.Sub(saved)), bumpAtMost) // another machine's clock may have said when it was saved
	return revisionBump + bumpPerSecond*uint64(age/time.Second)
}

// RestoreOptions of Restore. All are required.
type RestoreOptions struct {
	DataDir    string // is created, or is empty
	File       string
	Now        time.Time
	Kubernetes string // version of the server that will run
	Log        *slog.Logger
}

// Restore makes a data directory of a snapshot, and returns when the snapshot was saved. After an error the directory is
// as it was.
func Restore(ctx context.Context, o RestoreOptions) (saved time.Time, err error) {
	late := time.AfterFunc(waiting.Slow, func() { o.Log.Info("reading the snapshot", "file", o.File) })
	defer late.Stop()
	c, err := read(o.File, writerFunc(func(p []byte) (int, error) { return len(p), ctx.Err() }))
	if err == nil {
		err = c.record.CheckVersion(o.Kubernetes)
	}
	if err != nil {
		return time.Time{}, fmt.Errorf("%s: %w", o.File, err)
	}
	dir, err := datadir.Empty(o.DataDir)
	if err != nil {
		return time.Time{}, fmt.Errorf("--data-dir %s: %w", o.DataDir, err)
	}
	if err := o.fill(ctx, dir); err != nil {
		return time.Time{}, errors.Join(fmt.Errorf("restore %s into %s: %w", o.File, o.DataDir, err), dir.Discard())
	}
	return c.saved, dir.Close()
}

func (o *RestoreOptions) fill(ctx context.Context, dir *datadir.Dir) error {
	database := dir.Restoring(nameDatabase)
	f, err := os.OpenFile(database, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	c, err := read(o.File, f) // it may have changed since it was checked
	if err = errors.Join(err, f.Close(), ctx.Err()); err != nil {
		return err
	}
	late := time.AfterFunc(waiting.Slow, func() { o.Log.Info("writing the data", "directory", dir.Path()) })
	defer late.Stop()
	name, url := etcd.Alone()
	err = etcd.Contain(o.Log, func(log *zap.Logger) error {
		return snapshot.NewV3(log).Restore(snapshot.RestoreConfig{
			SnapshotPath:        database,
			Name:                name,
			OutputDataDir:       dir.Restoring("etcd"),
			PeerURLs:            []string{url},
			InitialCluster:      name + "=" + url,
			InitialClusterToken: rand.Text(),
			RevisionBump:        ahead(c.saved, o.Now),
			MarkCompacted:       true,
		})
	})
	if err != nil {
		return err
	}
	return dir.Restored(c.files, c.record)
}

type writerFunc func([]byte) (int, error)

// Write implements io.Writer.
func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
