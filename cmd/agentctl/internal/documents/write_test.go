// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package documents

import (
	"os"
	"path/filepath"
	"testing"
)

// A file that others can read is replaced, not written to: nobody has it open.
func TestWrite(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "out")
	if err := os.WriteFile(path, []byte("old"), 0o644); err != nil { //nolint:gosec // That is the case.
		t.Fatal(err)
	}
	if err := Write(path, []byte("n"), []byte("ew")); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	info, statErr := os.Stat(path)
	if err != nil || statErr != nil || string(data) != "new" || info.Mode().Perm() != 0o600 {
		t.Errorf("%q, mode %s, %v, %v", data, info.Mode(), err, statErr)
	}
	if err := Write(dir, []byte("new")); err == nil {
		t.Error("a folder was replaced")
	}
	if left, err := filepath.Glob(filepath.Join(filepath.Dir(dir), ".*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
