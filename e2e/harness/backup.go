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
	"os/exec"
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
// its revision advances by ahead or more, as it does when others write.
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
	plane := filepath.Join(c.fleet.testbedDir(), fmt.Sprintf("cluster-%d", c.Index))
	change := c.changeEtcd
	if c.standalone() {
		change = c.changeStandalone
	}
	if err := change(ctx, plane, ahead, func(data string) error { return act(data, filepath.Join(plane, "etcd-backup")) }); err != nil {
		return fmt.Errorf("data of cluster %s: %w", c.Name, err)
	}
	return c.StartAPIServer(ctx)
}

// changeEtcd acts on the data of etcd while that is away, and advances its revision.
func (c *Cluster) changeEtcd(ctx context.Context, plane string, ahead int, act func(data string) error) error {
	if err := c.testbed(ctx, "stop", "etcd", "--signal", "TERM"); err != nil {
		return err
	}
	if err := act(filepath.Join(plane, "etcd")); err != nil {
		return err
	}
	if err := c.testbed(ctx, "start", "etcd"); err != nil {
		return err
	}
	return advance(ctx, filepath.Join(plane, "ports.json"), ahead)
}

// changeStandalone acts on the etcd of a standalone server, which does not run. To advance the revision is what the server's
// own backups do when they are restored, by more than anybody asks for here.
func (c *Cluster) changeStandalone(ctx context.Context, plane string, ahead int, act func(data string) error) error {
	dir := filepath.Join(plane, "standalone")
	if err := act(filepath.Join(dir, "etcd")); err != nil || ahead == 0 {
		return err
	}
	file := dir + ".snapshot"
	defer os.Remove(file) //nolint:errcheck // The next save replaces it.
	if err := c.snapshot(ctx, "save", dir, file); err != nil {
		return err
	}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	return c.snapshot(ctx, "restore", dir, file)
}

func (c *Cluster) snapshot(ctx context.Context, verb, dir, file string) error {
	server := filepath.Join(c.fleet.bin.Root, "bin", "roster-apiserver")
	_, err := run(ctx, exec.CommandContext(ctx, server, "snapshot", verb, "--data-dir", dir, file))
	return err
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
