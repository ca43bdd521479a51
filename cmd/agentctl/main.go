// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/cli"
)

// What the linker sets, see version.Build.
//
//nolint:gochecknoglobals // the linker sets nothing else
var (
	version string
	commit  = "unknown"
	date    = "unknown"
)

func main() {
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // as under nohup
		signals = append(signals, syscall.SIGHUP) // the terminal has gone
	}
	ctx, stop := signal.NotifyContext(context.Background(), signals...)
	code := run(ctx, os.Args, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run is main without the process around it.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	if programOf(args) == pluginCompleter {
		return completePlugin(ctx, args, stdout)
	}
	app := newApp(stdout, stderr)
	app.Name = calledAs(args)
	if cli.Complete(ctx, app, args, os.Getenv(cli.CompletedWord), names, stdout) {
		return cli.ExitOK
	}
	err := app.RunContext(ctx, cli.FlagsFirst(app, args))
	if err == nil {
		return cli.ExitOK
	}
	stderr = cli.Printable{To: stderr} // an error may quote what another cluster says
	// client-go prints some errors over several lines. One line is what a user can read and grep.
	fmt.Fprintln(stderr, app.Name+": "+cli.OneLine(err.Error()))
	if late, ok := errors.AsType[*cli.TimeoutError](err); ok {
		for _, line := range late.Missing {
			fmt.Fprintln(stderr, "  "+line)
		}
	}
	return cli.ExitCode(err)
}
