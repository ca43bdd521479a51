// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package export

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/cli"
)

func TestValidate(t *testing.T) {
	t.Parallel()
	for want, o := range map[string]Options{
		"":                           {Names: []string{"alpha"}},
		"give names or -l, not both": {Names: []string{"alpha"}, Selector: "a=b"},
		`-l "a in" is no selector: unable to parse requirement: found '' expected: '('`: {Selector: "a in"},
	} {
		err := o.Validate()
		if want == "" && err == nil {
			continue
		}
		if err == nil || err.Error() != want || cli.ExitCode(err) != cli.ExitUsage {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}

// A file that others can read is replaced, not written to: nobody has it open.
func TestWriteFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "out")
	if err := os.WriteFile(path, []byte("old"), 0o644); err != nil { //nolint:gosec // That is the case.
		t.Fatal(err)
	}
	if err := writeFile(path, []byte("new")); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	info, statErr := os.Stat(path)
	if err != nil || statErr != nil || string(data) != "new" || info.Mode().Perm() != 0o600 {
		t.Errorf("%q, mode %s, %v, %v", data, info.Mode(), err, statErr)
	}
	if err := writeFile(dir, []byte("new")); err == nil {
		t.Error("a folder was replaced")
	}
	if left, err := filepath.Glob(filepath.Join(filepath.Dir(dir), ".*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
