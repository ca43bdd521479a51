// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"
)

// A wrong command line is one line on stderr that says what to do, and nothing is written.
func TestUsage(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "d")
	for line, want := range map[string]string{
		"foo":                                    "the commands are standalone, aggregated, add, ",
		"--foo":                                  "see roster-apiserver --help",
		"snapshot foo":                           "the commands are save and restore",
		"snapshot save --foo":                    "see roster-apiserver snapshot save --help",
		"snapshot save --data-dir DIR":           "one argument after its flags, FILE",
		"add --data-dir DIR f":                   "--peer is required",
		"add --data-dir DIR --peer h f":          "--peer: ",
		"standalone":                             "--data-dir is required",
		"standalone --foo":                       "see roster-apiserver standalone --help",
		"standalone --data-dir DIR foo":          `"foo"`,
		"standalone --data-dir DIR --listen foo": `--listen: "foo" is not HOST:PORT`,
		"standalone --data-dir DIR --cluster-name Big_Name":      `--cluster-name: "Big_Name" is not a valid object name`,
		"standalone --data-dir DIR --log-level loud":             "--log-level must be ",
		"standalone --data-dir DIR --etcd-cafile f":              "go with --etcd-servers",
		"standalone --data-dir DIR --peer-listen h:1 --bundle f": "leave out --peer-listen",
	} {
		var stdout, stderr bytes.Buffer
		args := append([]string{name}, strings.Fields(strings.ReplaceAll(line, "DIR", dir))...)
		code := run(t.Context(), args, strings.NewReader(""), &stdout, &stderr)
		if said := stderr.String(); code != exitUsage || !strings.Contains(said, want) || strings.Count(said, "\n") != 1 || stdout.Len() > 0 {
			t.Errorf("%s: code %d, printed %q and %q", line, code, stdout.String(), said)
		}
	}
	if written, err := filepath.Glob(dir + "*"); err != nil || len(written) > 0 {
		t.Errorf("%v was written, %v", written, err)
	}
}

func TestHelp(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{name}, {name, "--help"}, {name, "snapshot"}, {name, "standalone", "--help"}} {
		var stdout, stderr bytes.Buffer
		if code := run(t.Context(), args, strings.NewReader(""), &stdout, &stderr); code != 0 || stderr.Len() > 0 || !strings.Contains(stdout.String(), "USAGE:") {
			t.Errorf("%v: code %d, %q, %q", args, code, stdout.String(), stderr.String())
		}
	}
}
