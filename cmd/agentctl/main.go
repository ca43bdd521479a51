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
	"strings"
	"syscall"
)

const (
	exitOK      = 0
	exitFailed  = 1
	exitUsage   = 2
	exitTimeout = 3
	// Of the rules commands, see doc.go.
	exitUnmatched = 4
	exitBlocked   = 5
	exitUnknown   = 6
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run is main without the process around it.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	app := newApp(stdout, stderr)
	err := app.RunContext(ctx, flagsFirst(app, args))
	if err == nil {
		return exitOK
	}
	// client-go prints some errors over several lines. One line is what a user can read and grep.
	fmt.Fprintln(stderr, "agentctl: "+oneLine(err.Error()))
	var usage usageError
	var waited *waitError
	var found finding
	switch {
	case errors.As(err, &usage):
		return exitUsage
	case errors.As(err, &waited):
		for _, line := range waited.Missing {
			fmt.Fprintln(stderr, "  "+line)
		}
		return exitTimeout
	case errors.As(err, &found):
		return found.code
	default:
		return exitFailed
	}
}

// usageError is a wrong command line.
type usageError struct{ text string }

func (e usageError) Error() string { return e.text }

func usagef(format string, args ...any) error {
	return usageError{fmt.Sprintf(format, args...)}
}

func oneLine(s string) string {
	return strings.Join(strings.Fields(s), " ")
}
