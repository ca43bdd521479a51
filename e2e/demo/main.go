// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Command demo shows Roster's main job on this machine: three clusters with an agent each, and the quickstart step by
// step, with what a user would type, what came back, and how long it took. Then it stays up to be tried out, until it
// is interrupted. The clusters are without Kubernetes (agent run --local embedded), or with --kubernetes real control
// planes.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/term"

	"github.com/roster-mesh/roster/e2e/harness"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

const (
	exitFailed = 1
	exitUsage  = 2
)

// run is main without its process; it returns 0 only when every step was observed.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("demo", flag.ContinueOnError)
	flags.SetOutput(stderr)
	once := flags.Bool("once", false, "end after the last step")
	kubernetes := flags.Bool("kubernetes", false, "play on Kubernetes control planes")
	clusters := flags.Int("clusters", 3, "how many clusters, 3 to 24")
	dir := flags.String("dir", "", "a new or empty folder for everything (default: a temporary one, removed at the end)")
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return 0
	} else if err != nil {
		return exitUsage
	}
	if *clusters < 3 || *clusters > len(names()) || flags.NArg() > 0 {
		fmt.Fprintf(stderr, "demo: --clusters must be between 3 and %d, and nothing may follow the flags\n", len(names()))
		return exitUsage
	}
	bin, err := binaries(ctx, *kubernetes, stdout)
	if err != nil {
		fmt.Fprintf(stderr, "demo: %v\n", err)
		return exitFailed
	}
	folder, remove, err := folderFor(*dir)
	if err != nil {
		fmt.Fprintf(stderr, "demo: %v\n", err)
		return exitFailed
	}
	file, isFile := stdout.(*os.File)
	p := &printer{w: stdout, colour: isFile && term.IsTerminal(int(file.Fd()))}
	s := &story{printer: p, bin: bin, kubernetes: *kubernetes, dir: folder, names: names()[:*clusters]}
	err = s.play(ctx, *once)
	if err != nil && ctx.Err() != nil {
		fmt.Fprintln(stderr, "demo: interrupted")
		if err := remove(); err != nil {
			fmt.Fprintf(stderr, "demo: %v\n", err)
		}
		return exitFailed
	}
	if err != nil {
		fmt.Fprintf(stderr, "demo: %v\ndemo: logs and data stay in %s\n", err, folder)
		return exitFailed
	}
	if err := remove(); err != nil {
		fmt.Fprintf(stderr, "demo: %v\n", err)
		return exitFailed
	}
	return 0
}

func binaries(ctx context.Context, kubernetes bool, out io.Writer) (harness.Binaries, error) {
	if kubernetes {
		return harness.FindBinaries()
	}
	if packed, ok := harness.FindPacked(); ok {
		return packed, nil
	}
	return harness.FindEmbedded(ctx, out)
}

func folderFor(dir string) (path string, remove func() error, err error) {
	if dir != "" {
		return dir, func() error { return nil }, nil
	}
	path, err = os.MkdirTemp("", "roster-demo-")
	return path, func() error { return os.RemoveAll(path) }, err
}

func names() []string {
	return []string{
		"alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa", "lambda", "mu",
		"nu", "xi", "omicron", "pi", "rho", "sigma", "tau", "upsilon", "phi", "chi", "psi", "omega",
	}
}
