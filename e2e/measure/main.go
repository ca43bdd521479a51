// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Command measure takes Roster's figures on real control planes on this machine: how long a change takes
// from one cluster to another beside what the API servers alone take in the same run, what agents use when
// nothing happens, and what one copied object costs the target's API server.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/roster-mesh/roster/e2e/harness"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "measure:", err)
		os.Exit(1)
	}
}

// settings say how much is measured.
type settings struct {
	clusters, samples, objects int
	idle                       time.Duration
}

func run(ctx context.Context, args []string, out io.Writer) (err error) {
	var s settings
	flags := flag.NewFlagSet("measure", flag.ContinueOnError)
	flags.IntVar(&s.clusters, "clusters", 3, "how many clusters, 2 or more")
	flags.IntVar(&s.samples, "samples", 300, "how many objects are followed one by one")
	flags.IntVar(&s.objects, "objects", 500, "how many objects of 1 KiB are created at once")
	flags.DurationVar(&s.idle, "idle", time.Minute, "how long the idle agents are watched")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if s.clusters < 2 || s.clusters > 20 || s.samples < 10 || s.objects < 10 || s.idle < time.Second {
		return errors.New("use 2 to 20 --clusters, at least 10 --samples and --objects, and an --idle of a second or more")
	}
	bin, err := harness.FindBinaries()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "roster-measure-")
	if err != nil {
		return err
	}
	names := make([]string, s.clusters)
	for i := range names {
		names[i] = fmt.Sprintf("c%d", i+1)
	}
	fleet, err := harness.Up(ctx, harness.Options{Binaries: bin, Dir: dir, Names: names})
	if err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, fleet.Close())
		if err == nil {
			err = os.RemoveAll(dir)
		}
	}()
	if err := form(ctx, fleet); err != nil {
		return err
	}
	if err := describe(out, fleet); err != nil {
		return err
	}
	for _, measurement := range []func(context.Context, io.Writer, *harness.Fleet, settings) error{idle, latency, bulk} {
		if err := measurement(ctx, out, fleet, s); err != nil {
			return err
		}
	}
	return nil
}

// form installs everything and joins all clusters to the first.
func form(ctx context.Context, fleet *harness.Fleet) error {
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(2)
	for _, c := range fleet.Clusters {
		group.Go(func() error {
			if err := c.Install(groupCtx); err != nil {
				return err
			}
			return c.StartAgent(groupCtx)
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for _, c := range fleet.Clusters[1:] {
		if out, err := fleet.Agentctl(ctx, "join", "--context", fleet.Clusters[0].Name, "--peer-context", c.Name); err != nil {
			return fmt.Errorf("%w\n%s", err, out)
		}
	}
	return nil
}

// describe says what the figures were taken on.
func describe(out io.Writer, fleet *harness.Fleet) error {
	version, err := fleet.Clusters[0].Kube.Discovery().ServerVersion()
	if err != nil {
		return err
	}
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return err
	}
	fmt.Fprintf(out, "%d clusters, Kubernetes %s, %s on %d processors, Linux %s, etcd without fsync, everything on one machine\n",
		len(fleet.Clusters), version.GitVersion, runtime.Version(), runtime.NumCPU(), unix.ByteSliceToString(u.Release[:]))
	return nil
}
