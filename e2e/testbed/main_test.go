// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestMain(m *testing.M) {
	// The test binary is also the program: see startTestbed.
	if os.Getenv("TESTBED_MAIN") != "" {
		main()
	}
	os.Exit(m.Run())
}

func TestBadInputIsOneLine(t *testing.T) {
	t.Parallel()
	empty := t.TempDir()
	foreign := t.TempDir()
	if err := os.WriteFile(filepath.Join(foreign, "thesis.txt"), []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		args   string
		status int
		want   string
	}{
		{"up --clusters 0 --dir " + empty, 1, "--clusters must be between 1 and 50, not 0"},
		{"up --clusters 51 --dir " + empty, 1, "not 51"},
		{"up --clusters two", 2, `invalid value "two"`},
		{"up", 1, "--dir is required"},
		{"up --frobnicate", 2, "-frobnicate"},
		{"up --kubernetes v1.30.0 --dir " + empty, 1, `--kubernetes must be newest, oldest or standalone, not "v1.30.0"`},
		{"up --kubernetes oldest --dir " + empty + " --bin " + withoutOldest(t), 1, "run `make testbed-oldest`"},
		{"up --clusters 3 --kubernetes newest,standalone --dir " + empty, 1, "--kubernetes has 2 values for 3 clusters"},
		{"up --clusters 2 --kubernetes newest, --dir " + empty + " --bin " + withoutOldest(t), 1, `not ""`},
		{"up --clusters 2 --kubernetes newest,standalone --dir " + empty + " --bin " + withoutOldest(t), 1, "run `make apiserver`"},
		{"up now", 2, `unexpected argument "now"`},
		{"up --dir " + empty + " --bin " + empty, 1, "run `make testbed`"},
		{"up --dir " + foreign + " --bin " + binaries(t), 1, "choose another --dir"},
		{"status --dir " + empty, 1, "no testbed runs in " + empty},
		{"status --dir " + filepath.Join(empty, "absent"), 1, "no testbed runs in "},
		{"stop --component apiserver-1", 1, "--dir is required"},
		{"restart", 2, `unknown command "restart"`},
	} {
		t.Run(test.args, func(t *testing.T) {
			t.Parallel()
			var stdout, stderr bytes.Buffer
			status := run(context.Background(), strings.Fields(test.args), &stdout, &stderr)
			got := stderr.String()
			if status != test.status || !strings.Contains(got, test.want) || strings.Count(got, "\n") != 1 {
				t.Errorf("status %d, output %q; want status %d and one line with %q", status, got, test.status, test.want)
			}
		})
	}
}

func TestHelp(t *testing.T) {
	t.Parallel()
	var stdout, stderr bytes.Buffer
	if status := run(t.Context(), []string{"help"}, &stdout, &stderr); status != 0 || stdout.String() != usage {
		t.Errorf("status %d, output %q", status, stdout.String())
	}
}

// withoutOldest returns a folder with what `make testbed` builds, by name.
func withoutOldest(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"etcd", "kube-apiserver", "kube-controller-manager"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o700); err != nil { //nolint:gosec // It stands for a program.
			t.Fatal(err)
		}
	}
	return dir
}

// binaries returns the folder that `make testbed` fills.
func binaries(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("bin")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}
