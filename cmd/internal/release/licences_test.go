// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestThirdParty(t *testing.T) {
	t.Parallel()
	r := newRelease(t)
	b, err := r.binary("agent", imagePlatforms()[0])
	if err != nil {
		t.Fatal(err)
	}
	got, err := r.thirdParty(b, b)
	if err != nil {
		t.Fatal(err)
	}
	line := strings.Repeat("=", 80)
	want := strings.Join([]string{
		"What these programs were built from, beside Roster itself, and the terms of each.\n", line,
		"example.com/A_b v1.0.0+incompatible: LICENCE.md", "example.com/fork v2.0.0: COPYING", "", "shared terms\n", line,
		"example.com/fork v2.0.0: inner/NOTICE", "", "a notice\n", line,
		"stdlib 1.26.8: LICENSE", "", "Go's terms\n",
	}, "\n")
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Error(diff)
	}
	if err := os.RemoveAll(filepath.Join(r.modules, "example.com/fork@v2.0.0")); err != nil {
		t.Fatal(err)
	}
	if _, err := r.thirdParty(b); !errors.Is(err, errLicence) || !strings.Contains(err.Error(), "go mod download") {
		t.Errorf("a module that is not there: %v", err)
	}
	if err := os.MkdirAll(filepath.Join(r.modules, "example.com/fork@v2.0.0"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := r.thirdParty(b); !errors.Is(err, errLicence) || !strings.Contains(err.Error(), "example.com/fork v2.0.0") {
		t.Errorf("a module without a licence: %v", err)
	}
}
