// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
)

// Backup copies everything that the cluster's API server stores, which is away meanwhile. There is one backup of
// a cluster.
func (c *Cluster) Backup(ctx context.Context) error {
	return c.withoutServers(ctx, func(data, backup string) error {
		if err := os.RemoveAll(backup); err != nil {
			return err
		}
		return os.CopyFS(backup, os.DirFS(data))
	})
}

// Restore makes the API server store what it did at Backup, and know nothing of what came after.
func (c *Cluster) Restore(ctx context.Context) error {
	return c.withoutServers(ctx, func(data, backup string) error {
		if err := os.RemoveAll(data); err != nil {
			return err
		}
		return os.CopyFS(data, os.DirFS(backup))
	})
}

func (c *Cluster) withoutServers(ctx context.Context, act func(data, backup string) error) error {
	if err := c.StopAPIServer(ctx); err != nil {
		return err
	}
	if err := c.testbed(ctx, "stop", "etcd", "--signal", "TERM"); err != nil {
		return err
	}
	plane := filepath.Join(c.fleet.testbedDir(), fmt.Sprintf("cluster-%d", c.Index))
	if err := act(filepath.Join(plane, "etcd"), filepath.Join(plane, "etcd-backup")); err != nil {
		return fmt.Errorf("data of cluster %s: %w", c.Name, err)
	}
	if err := c.testbed(ctx, "start", "etcd"); err != nil {
		return err
	}
	return c.StartAPIServer(ctx)
}
