// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"testing"
)

func TestShellWord(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"alpha": "alpha", "user@host:6443/x": "user@host:6443/x", "a b": "'a b'", "$(rm)": "'$(rm)'", "it's": `'it'\''s'`, "": "''",
	} {
		if got := ShellWord(in); got != want {
			t.Errorf("ShellWord(%q) = %s, not %s", in, got, want)
		}
	}
}
