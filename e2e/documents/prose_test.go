// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package documents

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestSpans(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a.md")
	text := "Say `make a` and `make\nb`.\n\n```sh\nnot `this`\n```\n| `x \\| y` | `z` |\n|---|\n| 1 | `w` |\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	spans, err := Spans(path)
	if want := []string{"make a", "make b", "x | y", "z", "w"}; err != nil || !slices.Equal(spans, want) {
		t.Errorf("%q, %v", spans, err)
	}
	if err := os.WriteFile(path, []byte("a `b c\n\nd\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if spans, err := Spans(path); err == nil {
		t.Errorf("%q", spans)
	}
	if words := Words(`a --b="c d" '' 'e|f' > g`); !slices.Equal(words, []string{"a", "--b=c d", "", "e|f"}) {
		t.Errorf("%q", words)
	}
}
