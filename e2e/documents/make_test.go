// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package documents

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestMake: make knows each target that a document says to make, with what that needs. It says what it would do, and does nothing.
func TestMake(t *testing.T) {
	t.Parallel()
	r := NewReader(root)
	for _, d := range All() {
		for _, begins := range d.DryRun {
			line, err := r.Lines(d.Path, begins)
			if err != nil {
				t.Fatal(err)
			}
			folder := root
			if strings.HasPrefix(line, "git checkout ") {
				folder, line = checkout(t), strings.NewReplacer(" COMMIT ", " HEAD ", "cat dist/", "echo dist/").Replace(line)
			}
			cmd := exec.CommandContext(t.Context(), "sh", "-euc", line)
			cmd.Dir, cmd.Env = folder, append(os.Environ(), "MAKEFLAGS=n")
			if out, err := cmd.CombinedOutput(); err != nil || len(out) == 0 {
				t.Errorf("%s: %s: %v\n%s", d.Path, line, err, out)
			}
		}
	}
}

// checkout is a repository with this Makefile, since the one that the tests are in must stay as it is.
func checkout(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	const commit = `cp Makefile "$0" && cd "$0" && git init --quiet && git add . && git -c user.name=x -c user.email=x@example.com commit --quiet -m x`
	cmd := exec.CommandContext(t.Context(), "sh", "-euc", commit, dir)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return dir
}
