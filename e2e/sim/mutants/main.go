// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Command mutants breaks the replica and the mesh on purpose, one line at a time and never in place, and says what
// notices: runs of the replica's state machine (make sim), or another test of the package. It ends with an error when
// nothing does. The files that hold the lines are overlaid for the compiler, so that the sources stay as they are.
package main

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
)

//go:embed mutants.txt
var catalogue string

// mutant is a line of a file and what it becomes.
type mutant struct{ name, file, line, becomes string }

// mutants reads the catalogue, whose first lines say how it is written.
func mutants() (all []mutant) {
	for block := range strings.SplitSeq(catalogue, "\n\n") {
		var m mutant
		var out, in []string
		for line := range strings.Lines(block) {
			line = strings.TrimSuffix(line, "\n")
			switch line[:min(1, len(line))] {
			case "#":
				m.name = line[2:]
			case "=":
				m.file = line[2:]
			case "-":
				out = append(out, line[1:])
			case "+":
				in = append(in, line[1:])
			}
		}
		if m.line, m.becomes = strings.Join(out, "\n"), strings.Join(in, "\n"); m.name != "" {
			all = append(all, m)
		}
	}
	return all
}

func main() {
	checks := flag.Int("checks", 300, "runs of the state machine for each mutant")
	only := flag.String("run", "", "regular expression of the mutants to try")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *checks, *only); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, checks int, only string) error {
	chosen, err := regexp.Compile(only)
	if err != nil {
		return fmt.Errorf("-run: %w", err)
	}
	dir, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	tried, byMachine, survivors := 0, 0, []string(nil)
	for _, m := range mutants() {
		if !chosen.MatchString(m.name) {
			continue
		}
		tried++
		how, err := m.hunt(ctx, dir, checks)
		if err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
		switch how {
		case "":
			survivors, how = append(survivors, m.name), "NOTHING"
		case machine:
			byMachine++
		}
		fmt.Printf("%-50s %s\n", m.name, how)
	}
	fmt.Printf("%d mutants: %d noticed by the machine in %d runs, %d by another test, %d by nothing\n",
		tried, byMachine, checks, tried-byMachine-len(survivors), len(survivors))
	if len(survivors) > 0 {
		return fmt.Errorf("not noticed: %q", survivors)
	}
	return nil
}

// machine is how a mutant is noticed that does not need a test of its own.
const machine = "TestMachine"

// hunt returns the test that notices the mutant, "" when none does.
func (m mutant) hunt(ctx context.Context, dir string, checks int) (string, error) {
	source, err := os.ReadFile(m.file)
	if err != nil {
		return "", err
	}
	if n := bytes.Count(source, []byte(m.line)); n != 1 {
		return "", fmt.Errorf("%s holds %q %d times: the mutant is to be written again", m.file, m.line, n)
	}
	broken, overlay := filepath.Join(dir, "mutant.go"), filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(broken, bytes.Replace(source, []byte(m.line), []byte(m.becomes), 1), 0o600); err != nil {
		return "", err
	}
	path, err := filepath.Abs(m.file)
	if err != nil {
		return "", err
	}
	replace, err := json.Marshal(map[string]any{"Replace": map[string]string{path: broken}})
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(overlay, replace, 0o600); err != nil {
		return "", err
	}
	// A failure is told and not shrunk.
	rapid := []string{fmt.Sprint("-rapid.checks=", checks), "-rapid.steps=60", "-rapid.nofailfile", "-rapid.shrinktime=1ns"}
	pkg := "./" + filepath.Dir(m.file)
	if pkg == "./replica" {
		if how, err := test(ctx, append([]string{"-overlay", overlay, pkg, "-run", "^" + machine + "$"}, rapid...)); how != "" || err != nil {
			return how, err
		}
		return test(ctx, []string{"-overlay", overlay, pkg, "-skip", "^" + machine + "$", "-rapid.nofailfile", "-rapid.shrinktime=1ns"})
	}
	return test(ctx, []string{"-overlay", overlay, pkg})
}

// failed is the line of a test that fails.
var failed = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)`)

// test runs tests and returns the first one that fails.
func test(ctx context.Context, args []string) (string, error) {
	out, err := exec.CommandContext(ctx, "go", append([]string{"test", "-vet=off", "-count=1", "-failfast", "-timeout=5m"}, args...)...).CombinedOutput() //nolint:gosec // its own arguments
	if first := failed.FindSubmatch(out); first != nil {
		return string(first[1]), nil
	}
	var exit *exec.ExitError
	switch {
	case err == nil:
		return "", nil
	case errors.As(err, &exit) && bytes.Contains(out, []byte("panic: ")):
		return "a panic", nil
	}
	return "", fmt.Errorf("go test %v: %w\n%s", args, err, out)
}
