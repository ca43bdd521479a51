// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
)

// Backup copies everything that the cluster's API server stores, which is away meanwhile. There is one backup of
// a cluster.
func (c *Cluster) Backup(ctx context.Context) error {
	return c.withoutServers(ctx, 0, func(data, backup string) error {
		if err := os.RemoveAll(backup); err != nil {
			return err
		}
		return os.CopyFS(backup, os.DirFS(data))
	})
}

// Restore makes the API server store what it did at Backup, and know nothing of what came after. Before it serves,
// its revision advances by ahead, as it does when others write.
func (c *Cluster) Restore(ctx context.Context, ahead int) error {
	return c.withoutServers(ctx, ahead, func(data, backup string) error {
		if err := os.RemoveAll(data); err != nil {
			return err
		}
		return os.CopyFS(data, os.DirFS(backup))
	})
}

func (c *Cluster) withoutServers(ctx context.Context, ahead int, act func(data, backup string) error) error {
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
	if err := advance(ctx, filepath.Join(plane, "ports.json"), ahead); err != nil {
		return fmt.Errorf("advance the etcd of cluster %s: %w", c.Name, err)
	}
	return c.StartAPIServer(ctx)
}

// advance writes to etcd, through its JSON gateway, a key that no API server reads, each time a revision.
func advance(ctx context.Context, portsFile string, revisions int) error {
	data, err := os.ReadFile(portsFile)
	if err != nil {
		return err
	}
	var ports struct {
		Etcd int `json:"etcd"`
	}
	if err := json.Unmarshal(data, &ports); err != nil {
		return err
	}
	put := fmt.Sprintf("http://127.0.0.1:%d/v3/kv/put", ports.Etcd)
	for range revisions {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, put, strings.NewReader(`{"key":"cm9zdGVy"}`))
		if err != nil {
			return err
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			return err
		}
		if err := resp.Body.Close(); err != nil {
			return err
		}
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("etcd answered %s", resp.Status)
		}
	}
	return nil
}
