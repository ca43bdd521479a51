// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/roster-mesh/roster/kube/apiserver/datadir"
	"github.com/roster-mesh/roster/kube/apiserver/etcd"
)

const kubernetes = "v1.37.2"

var quiet = slog.New(slog.DiscardHandler)

// server is a data directory that is in use, without the API.
type server struct {
	*etcd.Server

	path string
	dir  *datadir.Dir
	up   bool
}

// start starts etcd on a directory; a new one gets keys.
func start(t *testing.T, path string) *server {
	t.Helper()
	d, err := datadir.Open(t.Context(), path, kubernetes, "alpha")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.EnsurePKI(datadir.Names{}, time.Now()); err != nil {
		t.Fatal(err)
	}
	if _, err := d.EnsureEncryption(); err != nil {
		t.Fatal(err)
	}
	e, err := etcd.Start(t.Context(), etcd.Options{Dir: d.Path("etcd"), Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	s := &server{Server: e, path: path, dir: d, up: true}
	t.Cleanup(s.stop)
	return s
}

func (s *server) stop() {
	if s.up {
		s.up = false
		_ = s.Close()
		_ = s.dir.Close()
	}
}

// put writes a key and returns the revision.
func (s *server) put(t *testing.T, key string) int64 {
	t.Helper()
	r, err := s.Client().Put(t.Context(), key, "x")
	if err != nil {
		t.Fatal(err)
	}
	return r.Header.Revision
}

func (s *server) keys(t *testing.T) []string {
	t.Helper()
	r, err := s.Client().Get(t.Context(), "key", clientv3.WithPrefix())
	if err != nil {
		t.Fatal(err)
	}
	var keys []string
	for _, kv := range r.Kvs {
		keys = append(keys, string(kv.Key))
	}
	return keys
}

func save(t *testing.T, dir, file string) error {
	t.Helper()
	size, err := Save(t.Context(), SaveOptions{
		DataDir: dir, File: file, Now: time.Now(), Log: quiet,
		Check: func(_ context.Context, dir string) error { return etcd.Check(dir) },
	})
	if err != nil {
		return err
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 || info.Size() != size {
		t.Errorf("the file: %v, %v, want %d bytes", info, err, size)
	}
	return nil
}

func restore(t *testing.T, dir, file string) error {
	t.Helper()
	_, err := Restore(t.Context(), RestoreOptions{DataDir: dir, File: file, Now: time.Now(), Kubernetes: kubernetes, Log: quiet})
	return err
}

// identity are the files that a restored server must have in common with the one that was saved.
func identity(t *testing.T, d *datadir.Dir) map[string]string {
	t.Helper()
	files, err := d.Identity()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for name, data := range files {
		out[name] = string(data)
	}
	return out
}

// A snapshot of a server that runs, and one of a server that does not, become servers with the same data and keys, and
// with revisions that are far ahead; what was before is compacted.
func TestSaveAndRestore(t *testing.T) {
	t.Parallel()
	temp := t.TempDir()
	s := start(t, filepath.Join(temp, "d"))
	s.put(t, "key1")
	online, offline := filepath.Join(temp, "online"), filepath.Join(temp, "offline")
	if err := save(t, s.path, online); err != nil {
		t.Fatal(err)
	}
	was := s.put(t, "key2")
	want := identity(t, s.dir)
	s.stop()
	before := tree(t, s.path)
	if err := save(t, s.path, offline); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, tree(t, s.path)); diff != "" {
		t.Errorf("a save has changed what it saves (-want +got):\n%s", diff)
	}
	for file, keys := range map[string][]string{online: {"key1"}, offline: {"key1", "key2"}} {
		dir := file + ".d"
		if err := restore(t, dir, file); err != nil {
			t.Fatal(err)
		}
		r := start(t, dir)
		if diff := cmp.Diff(keys, r.keys(t)); diff != "" {
			t.Errorf("%s: keys (-want +got):\n%s", file, diff)
		}
		if diff := cmp.Diff(want, identity(t, r.dir)); diff != "" {
			t.Errorf("%s: files (-want +got):\n%s", file, diff)
		}
		if record, err := r.dir.Record(); err != nil || record.Name != "alpha" {
			t.Errorf("%s: %v, %v", file, record, err)
		}
		if is := r.put(t, "key3"); is < was+revisionBump/2 {
			t.Errorf("%s: revision %d after %d", file, is, was)
		}
		watching := <-r.Client().Watch(t.Context(), "key", clientv3.WithPrefix(), clientv3.WithRev(was))
		if err := watching.Err(); !errors.Is(err, rpctypes.ErrCompacted) {
			t.Errorf("%s: a watch from the old server goes on: %v", file, err)
		}
		// What was restored can be saved and restored.
		again := file + ".again"
		if err := save(t, dir, again); err != nil {
			t.Fatal(err)
		}
		if err := restore(t, again+".d", again); err != nil {
			t.Fatal(err)
		}
		if got := start(t, again+".d").keys(t); len(got) != len(keys)+1 {
			t.Errorf("%s, again: %v", file, got)
		}
	}
}

// Of a server that was killed, all is saved that it has acknowledged.
func TestSaveAfterACrash(t *testing.T) {
	t.Parallel()
	temp := t.TempDir()
	s := start(t, filepath.Join(temp, "d"))
	for i := range 100 {
		s.put(t, fmt.Sprintf("key%d", i))
	}
	// What the disk has at this moment is what a crash leaves.
	crashed := filepath.Join(temp, "crashed")
	copyTree(t, s.path, crashed)
	file := filepath.Join(temp, "file")
	if err := save(t, crashed, file); err != nil {
		t.Fatal(err)
	}
	if err := restore(t, filepath.Join(temp, "restored"), file); err != nil {
		t.Fatal(err)
	}
	if keys := start(t, filepath.Join(temp, "restored")).keys(t); len(keys) != 100 {
		t.Errorf("it has %d keys of 100", len(keys))
	}
}

// files calls f for each file in a directory.
func files(t *testing.T, dir string, f func(rel string, data []byte)) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		f(rel, data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// tree has the checksum of each file in a directory.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	files(t, dir, func(rel string, data []byte) { out[rel] = fmt.Sprintf("%x", sha256.Sum256(data)) })
	return out
}

// copyTree copies a directory without its socket.
func copyTree(t *testing.T, from, to string) {
	t.Helper()
	files(t, from, func(rel string, data []byte) {
		path := filepath.Join(to, rel)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	})
}

// A file that is cut off, damaged or something else is named in one line, and nothing is made of it.
func TestBadFile(t *testing.T) {
	t.Parallel()
	temp := t.TempDir()
	s := start(t, filepath.Join(temp, "d"))
	s.put(t, "key")
	file := filepath.Join(temp, "file")
	if err := save(t, s.path, file); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	manifest := bytes.LastIndex(whole, []byte(nameManifest))
	flip := func(at int) []byte {
		data := bytes.Clone(whole)
		data[at] ^= 1
		return data
	}
	for name, c := range map[string]struct {
		data []byte
		want error
	}{
		"nothing":            {nil, ErrForeign},
		"first header":       {whole[:100], ErrForeign},
		"text":               {[]byte(strings.Repeat("text\n", 1000)), ErrForeign},
		"database of etcd":   {make([]byte, 20000), ErrForeign},
		"before the end":     {whole[:manifest], ErrDamaged},
		"in the manifest":    {whole[:manifest+600], ErrDamaged},
		"in the database":    {whole[:len(whole)/2], ErrDamaged},
		"in the first file":  {whole[:520], ErrDamaged},
		"byte of a database": {flip(len(whole) / 2), ErrDamaged},
		"byte of a key":      {flip(bytes.Index(whole, []byte("PRIVATE"))), ErrDamaged},
		"byte of a header":   {flip(bytes.Index(whole, []byte("etcd.db"))), ErrDamaged},
	} {
		bad, dir := filepath.Join(temp, name+".snapshot"), filepath.Join(temp, name)
		if err := os.WriteFile(bad, c.data, 0o600); err != nil {
			t.Fatal(err)
		}
		err := restore(t, dir, bad)
		if !errors.Is(err, c.want) || !strings.HasPrefix(err.Error(), bad+": ") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
		if _, err := os.Stat(dir); err == nil {
			t.Errorf("%s: a directory was made", name)
		}
	}
	if err := restore(t, filepath.Join(temp, "new"), filepath.Join(temp, "missing")); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	old := RestoreOptions{DataDir: filepath.Join(temp, "old"), File: file, Kubernetes: "v1.36.0", Log: quiet}
	if _, err := Restore(t.Context(), old); err == nil || !strings.Contains(err.Error(), "Kubernetes v1.37.2 has written to it") {
		t.Errorf("an earlier version: %v", err)
	}
	s.stop()
	before := tree(t, s.path)
	if err := restore(t, s.path, file); err == nil || !strings.Contains(err.Error(), "it is not empty") {
		t.Errorf("into a server's directory: %v", err)
	}
	if diff := cmp.Diff(before, tree(t, s.path)); diff != "" {
		t.Errorf("it was changed (-want +got):\n%s", diff)
	}
}

// A save that fails leaves the file that was there, and nothing else.
func TestSaveFails(t *testing.T) {
	t.Parallel()
	temp := t.TempDir()
	file := filepath.Join(temp, "file")
	if err := os.WriteFile(file, []byte("the last one"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := start(t, filepath.Join(t.TempDir(), "d"))
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Save(canceled, SaveOptions{DataDir: s.path, File: file, Now: time.Now(), Log: quiet}); err == nil {
		t.Error("a save that was interrupted succeeded")
	}
	s.stop()
	if err := os.WriteFile(s.dir.Path("etcd", "member", "snap", "db"), []byte("nonsense"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := save(t, s.path, file); !errors.Is(err, etcd.ErrBroken) {
		t.Errorf("a damaged database: %v", err)
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != "the last one" || len(tree(t, temp)) != 1 {
		t.Errorf("there is %q, %v, and %v", got, err, tree(t, temp))
	}
	other := t.TempDir()
	link := filepath.Join(other, "link")
	if err := os.Symlink("elsewhere", link); err != nil {
		t.Fatal(err)
	}
	for _, target := range []string{link, other} { // as /dev/stdout is a link
		if err := save(t, s.path, target); err == nil || !strings.Contains(err.Error(), target+" is there and no regular file") {
			t.Errorf("%s: %v", target, err)
		}
	}
	empty := filepath.Join(t.TempDir(), "empty")
	d, err := datadir.Open(t.Context(), empty, kubernetes, "")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(d.Close()); err != nil {
		t.Fatal(err)
	}
	if err := save(t, empty, file); err == nil || !strings.Contains(err.Error(), "it has no data") {
		t.Errorf("a server that never ran: %v", err)
	}
}
