// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/urfave/cli/v2"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/roster-mesh/roster/kube/apiserver/datadir"
	"github.com/roster-mesh/roster/kube/apiserver/etcd"
	"github.com/roster-mesh/roster/kube/apiserver/members"
	"github.com/roster-mesh/roster/kube/apiserver/snapshot"
	"github.com/roster-mesh/roster/kube/apiserver/standalone"
)

// dataCommands work on the data directory of a server: of one that runs through its etcd.
func dataCommands(usage cli.OnUsageErrorFunc, stdout, stderr io.Writer) []*cli.Command {
	dataDir := func(usage string) *cli.StringFlag {
		return &cli.StringFlag{Name: "data-dir", Usage: usage, EnvVars: env("data-dir")}
	}
	command := func(name, argument, about string, action func(*cli.Context, string, *slog.Logger) error, flags ...cli.Flag) *cli.Command {
		return &cli.Command{
			Name: name, Usage: about, ArgsUsage: argument, Flags: flags, OnUsageError: usage,
			Action: func(c *cli.Context) error {
				if c.Args().Len() != 1 {
					return fmt.Errorf("%w: %s takes one argument after its flags, %s", errUsage, c.Command.Name, argument)
				}
				if c.String("data-dir") == "" {
					return fmt.Errorf("%w: --data-dir is required", errUsage)
				}
				log, _, err := newLogger(stderr, "text", "info", fatal(stderr))
				if err != nil {
					return err
				}
				return action(c, c.Args().First(), log)
			},
		}
	}
	running := dataDir("`DIR` of a server that runs")
	return []*cli.Command{
		command("add", "BUNDLE", "write a file with which another server of the same cluster starts, once and within an hour",
			func(c *cli.Context, file string, log *slog.Logger) error { return add(c, file, stdout, log) },
			running, &cli.StringFlag{Name: "peer", Usage: "`HOST:PORT` at which the others will reach the new server"}),
		command("remove-member", "HOST:PORT", "remove a server of the cluster that is lost or no longer wanted",
			func(c *cli.Context, peer string, log *slog.Logger) error { return remove(c, peer, stdout, log) },
			running),
		{
			Name: "snapshot", Usage: "save what a server has, or make a data directory of it", OnUsageError: usage, HideHelpCommand: true,
			Action: func(c *cli.Context) error {
				if c.Args().Present() {
					return fmt.Errorf("%w: there is no command %q of snapshot; the commands are save and restore", errUsage, c.Args().First())
				}
				return cli.ShowSubcommandHelp(c)
			},
			Subcommands: []*cli.Command{
				command("save", "FILE", "save all that a server has, which may run: data, keys and name",
					func(c *cli.Context, file string, log *slog.Logger) error { return save(c, file, stdout, log) },
					dataDir("`DIR` of the server")),
				command("restore", "FILE", "make a data directory of what snapshot save has written",
					func(c *cli.Context, file string, log *slog.Logger) error { return restore(c, file, stdout, log) },
					dataDir("`DIR` that is empty or does not exist")),
			},
		},
	}
}

// checkPeerFlags returns an error for flags of standalone that do not go together.
func checkPeerFlags(c *cli.Context) error {
	peer, bundle := c.String("peer-listen"), c.String("bundle")
	switch {
	case peer != "" && bundle != "":
		return fmt.Errorf("%w: --bundle says what to listen on: leave out --peer-listen", errUsage)
	case (peer != "" || bundle != "") && len(c.StringSlice("etcd-servers")) > 0:
		return fmt.Errorf("%w: --peer-listen and --bundle are for the etcd in this process, and do not go with --etcd-servers", errUsage)
	case peer == "":
		return nil
	}
	if err := etcd.CheckAddress(peer); err != nil {
		return fmt.Errorf("%w: --peer-listen: %w", errUsage, err)
	}
	return nil
}

// connect calls f with a client of the server that runs on --data-dir.
func connect(c *cli.Context, log *slog.Logger, f func(context.Context, *clientv3.Client, *datadir.Dir) error) error {
	path := c.String("data-dir")
	dir, running, err := datadir.Existing(path)
	if err != nil {
		return fmt.Errorf("--data-dir %s: %w", path, err)
	}
	defer dir.Close()
	if !running {
		return fmt.Errorf("--data-dir %s: no server runs on it: start it first, or name the directory of one that runs", path)
	}
	client, err := etcd.Dial(c.Context, dir.Path("etcd"), log)
	if err != nil {
		return fmt.Errorf("--data-dir %s: %w", path, err)
	}
	defer client.Close()
	return f(c.Context, client, dir)
}

func add(c *cli.Context, file string, stdout io.Writer, log *slog.Logger) error {
	peer := c.String("peer")
	if peer == "" {
		return fmt.Errorf("%w: --peer is required: HOST:PORT at which the others will reach the new server", errUsage)
	}
	if err := etcd.CheckAddress(peer); err != nil {
		return fmt.Errorf("%w: --peer: %w", errUsage, err)
	}
	if err := datadir.CheckReplace(file); err != nil {
		return err
	}
	return connect(c, log, func(ctx context.Context, client *clientv3.Client, dir *datadir.Dir) error {
		bundle, err := members.Add(ctx, client, dir, peer, time.Now())
		if err != nil {
			return err
		}
		data, err := bundle.Encode()
		if err != nil {
			return err
		}
		if err := datadir.WriteFile(file, data); err != nil {
			return fmt.Errorf("write %s: %w", file, err)
		}
		_, err = fmt.Fprintf(stdout, "%s is for one server at %s, until %s. Who can read it can do everything in this cluster.\n"+
			"Copy it there, start roster-apiserver standalone --bundle FILE --data-dir NEW, and delete it.\n",
			file, peer, bundle.Expires.Local().Format(time.DateTime))
		return err
	})
}

func remove(c *cli.Context, peer string, stdout io.Writer, log *slog.Logger) error {
	return connect(c, log, func(ctx context.Context, client *clientv3.Client, _ *datadir.Dir) error {
		if err := members.Remove(ctx, client, peer); err != nil {
			return err
		}
		_, err := fmt.Fprintf(stdout, "%s is no server of this cluster any more, and no bundle for it counts.\n", peer)
		return err
	})
}

func save(c *cli.Context, file string, stdout io.Writer, log *slog.Logger) error {
	size, err := snapshot.Save(c.Context, snapshot.SaveOptions{
		DataDir: c.String("data-dir"), File: file, Now: time.Now(), Check: checkData, Log: log,
	})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(stdout, "%s has %d bytes. Who can read it can do everything in this cluster.\n", file, size)
	return err
}

func restore(c *cli.Context, file string, stdout io.Writer, log *slog.Logger) error {
	dir := c.String("data-dir")
	saved, err := snapshot.Restore(c.Context, snapshot.RestoreOptions{
		DataDir: dir, File: file, Now: time.Now(), Kubernetes: standalone.KubernetesVersion(), Log: log,
	})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(stdout, "%s has what was saved at %s. Roster's agents will say that this cluster went back in time: see docs/restore.md.\n",
		dir, saved.Local().Format(time.DateTime))
	return err
}
