// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/cli"
)

// The names under which kubectl finds the program as its plugin: the command `kubectl roster`, and what its completion asks.
const (
	pluginName      = "kubectl-roster"
	pluginCompleter = "kubectl_complete-roster"
)

// calledAs is what people call the program, by the file that was started.
func calledAs(args []string) string {
	if programOf(args) == pluginName {
		return "kubectl roster"
	}
	return "agentctl"
}

func programOf(args []string) string {
	if len(args) == 0 {
		return ""
	}
	return strings.TrimSuffix(filepath.Base(args[0]), ".exe")
}

// completePlugin answers kubectl, which hands over the words after `kubectl roster`; the last one is being typed. It prints
// what may stand there, a line each, and ends with what shells do besides: names of files where there is nothing else.
func completePlugin(ctx context.Context, args []string, stdout io.Writer) int {
	words, word, flag := args[:len(args)-1], args[len(args)-1], ""
	if len(words) == 0 {
		words, word = args, ""
	}
	asked := append([]string{pluginName}, words[1:]...)
	if name, value, joined := strings.Cut(word, "="); strings.HasPrefix(word, "-") && joined {
		asked, flag, word = append(asked, name), name+"=", value
	} else if strings.HasPrefix(word, "-") {
		asked = append(asked, word)
	}
	os.Args = append(asked, cli.CompletionFlag) // where the flag library looks
	var answers bytes.Buffer
	app := newApp(&answers, io.Discard)
	if !cli.Complete(ctx, app, os.Args, word, names, &answers) {
		_ = app.RunContext(ctx, cli.FlagsFirst(app, os.Args)) // a shell shows no error
	}
	found := 0
	for line := range strings.Lines(answers.String()) {
		if line = flag + strings.TrimSpace(line); strings.HasPrefix(line, flag+word) && line != flag {
			fmt.Fprintln(stdout, line)
			found++
		}
	}
	const files, noFiles = 0, 4
	directive := noFiles
	if found == 0 {
		directive = files
	}
	fmt.Fprintf(stdout, ":%d\n", directive)
	return cli.ExitOK
}
