// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package datadir

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// open opens a directory and closes it when the test ends.
func open(t *testing.T, path, kubernetes, name string) *Dir {
	t.Helper()
	d, err := Open(t.Context(), path, kubernetes, name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d
}

// A directory that is open is refused, and taken once it is closed.
func TestOneProcessAtATime(t *testing.T) {
	t.Parallel()
	path := t.TempDir()
	d := open(t, path, "v1.37.2", "alpha")
	if _, err := Open(ended(t), path, "v1.37.2", "alpha"); !errors.Is(err, ErrInUse) {
		t.Fatalf("a directory in use: %v", err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	open(t, path, "v1.37.2", "alpha")
}

// What a directory was written by decides who may use it, and who may not leaves it as it was.
func TestRecord(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		record           string
		kubernetes, name string
		want             string // part of the error; empty means that it opens
	}{
		"same":           {`{"format":1,"kubernetes":"v1.37.2","name":"alpha"}`, "v1.37.2", "alpha", ""},
		"any name":       {`{"format":1,"kubernetes":"v1.37.2","name":"alpha"}`, "v1.37.2", "", ""},
		"patch down":     {`{"format":1,"kubernetes":"v1.37.9+roster"}`, "v1.37.2+roster", "", ""},
		"upgrade":        {`{"format":1,"kubernetes":"v1.36.0"}`, "v1.37.2", "alpha", ""},
		"other cluster":  {`{"format":1,"kubernetes":"v1.37.2","name":"alpha"}`, "v1.37.2", "beta", "it belongs to cluster alpha"},
		"downgrade":      {`{"format":1,"kubernetes":"v1.38.0"}`, "v1.37.2", "alpha", "Kubernetes v1.38.0 has written to it"},
		"later format":   {`{"format":2,"kubernetes":"v1.37.2"}`, "v1.37.2", "alpha", "format 2, not 1"},
		"cut off":        {`{"format":1,"kuber`, "v1.37.2", "alpha", "server.json is damaged"},
		"no version":     {`{"format":1,"kubernetes":"?"}`, "v1.37.2", "alpha", "is no version"},
		"something else": {`{}`, "v1.37.2", "alpha", "server.json is damaged"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := t.TempDir()
			file := filepath.Join(path, "server.json")
			if err := os.WriteFile(file, []byte(c.record), fileMode); err != nil {
				t.Fatal(err)
			}
			d, err := Open(t.Context(), path, c.kubernetes, c.name)
			if c.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				_ = d.Close()
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("got %v, want an error with %q", err, c.want)
			}
			if have, err := os.ReadFile(file); err != nil || string(have) != c.record {
				t.Errorf("server.json is now %q, %v", have, err)
			}
		})
	}
}

// Data without a record may be anybody's.
func TestRecordIsMissing(t *testing.T) {
	t.Parallel()
	path := t.TempDir()
	if err := os.Mkdir(filepath.Join(path, "etcd"), dirMode); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), path, "v1.37.2", "alpha"); err == nil || !strings.Contains(err.Error(), "server.json is missing") {
		t.Fatalf("data of unknown origin: %v", err)
	}
}

// The first name stays that of the directory.
func TestNameIsKept(t *testing.T) {
	t.Parallel()
	path := t.TempDir()
	for _, name := range []string{"", "alpha", ""} {
		if err := open(t, path, "v1.37.2", name).Close(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Open(t.Context(), path, "v1.37.2", "beta"); err == nil {
		t.Fatal("the directory of alpha was opened for beta")
	}
}
