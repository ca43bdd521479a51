// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
)

const usage = `testbed runs Kubernetes control planes on this machine, for tests.

  testbed up --clusters N --dir DIR [--kubernetes KIND[,KIND...]] [--fsync] [--wait]
      starts N control planes, prints "ready", stops them on SIGINT or SIGTERM; each KIND, of all
      planes or one for each, is newest, oldest or standalone
  testbed stop --dir DIR --component NAME [--signal KILL|TERM|STOP]
      ends (or with STOP freezes) one component, such as apiserver-2, etcd-2, controller-manager-2
  testbed start --dir DIR --component NAME
      starts (or thaws) it and returns when it serves
  testbed status --dir DIR
      lists the components

The binaries come from "make testbed", the API server of the kind oldest from "make testbed-oldest", that of the
kind standalone, a process for all components, from "make apiserver"; --bin names another folder for them.
`

// errUsage is returned when the command line is wrong in a way that was already explained.
var errUsage = errors.New("usage")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run is main without the process around it: it returns the exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	err := command(ctx, args, stdout, stderr)
	switch {
	case err == nil:
		return 0
	case errors.Is(err, errUsage):
		return 2
	default:
		fmt.Fprintln(stderr, "testbed:", err)
		return 1
	}
}

func command(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	name := "help"
	if len(args) > 0 {
		name, args = args[0], args[1:]
	}
	switch name {
	case "up":
		return upCommand(ctx, args, stdout, stderr)
	case "stop", "start", "status":
		return controlCommand(ctx, name, args, stdout, stderr)
	case "help", "-h", "-help", "--help":
		fmt.Fprint(stdout, usage)
		return nil
	default:
		fmt.Fprintf(stderr, "testbed: unknown command %q: one of up, stop, start, status\n", name)
		return errUsage
	}
}

// parse reads flags and refuses what is left over.
func parse(flags *flag.FlagSet, args []string, stderr io.Writer) error {
	flags.SetOutput(io.Discard)
	flags.Usage = func() {}
	err := flags.Parse(args)
	if err == nil && flags.NArg() > 0 {
		err = fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(stderr, usage)
		return errUsage
	case err != nil:
		fmt.Fprintf(stderr, "testbed: %s: %v\n", flags.Name(), err)
		return errUsage
	default:
		return nil
	}
}

func upCommand(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	var o Options
	var kinds string
	flags := flag.NewFlagSet("up", flag.ContinueOnError)
	flags.IntVar(&o.Clusters, "clusters", 1, "")
	flags.StringVar(&o.Dir, "dir", "", "")
	flags.StringVar(&o.Bin, "bin", "", "")
	flags.StringVar(&kinds, "kubernetes", "newest", "")
	flags.BoolVar(&o.Fsync, "fsync", false, "")
	flags.BoolVar(&o.WaitControllers, "wait", false, "")
	if err := parse(flags, args, stderr); err != nil {
		return err
	}
	o.Out = stdout
	o.Kubernetes = strings.Split(kinds, ",")
	if o.Bin == "" {
		o.Bin = findBinaries()
	}
	return Up(ctx, o)
}

func controlCommand(ctx context.Context, name string, args []string, stdout, stderr io.Writer) error {
	req := request{Op: name}
	var dir string
	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	flags.StringVar(&dir, "dir", "", "")
	if name != "status" {
		flags.StringVar(&req.Component, "component", "", "")
	}
	if name == "stop" {
		flags.StringVar(&req.Signal, "signal", "KILL", "")
	}
	if err := parse(flags, args, stderr); err != nil {
		return err
	}
	if dir == "" {
		return errors.New("--dir is required: the folder that `testbed up` was given")
	}
	req.Signal = strings.TrimPrefix(strings.ToUpper(req.Signal), "SIG")
	message, err := call(ctx, dir, req)
	if err != nil {
		return err
	}
	fmt.Fprint(stdout, message)
	return nil
}

// findBinaries returns the folder that `make testbed` fills: beside the program when that is
// bin/testbed of a checkout, else below the working directory.
func findBinaries() string {
	built := filepath.Join("e2e", "testbed", "bin")
	if exe, err := os.Executable(); err == nil {
		dir := filepath.Join(filepath.Dir(exe), "..", built)
		if info, err := os.Stat(dir); err == nil && info.IsDir() {
			return dir
		}
	}
	return built
}
