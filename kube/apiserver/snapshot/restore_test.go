// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/roster-mesh/roster/kube/apiserver/datadir"
)

// A snapshot that is restored twice, the second time after the first server has been written to: no resourceVersion comes
// back, and what was seen of the first server is compacted at the second one.
func TestRestoreTwice(t *testing.T) {
	t.Parallel()
	temp := t.TempDir()
	s := start(t, filepath.Join(temp, "d"))
	s.put(t, "key")
	file := filepath.Join(temp, "file")
	if err := save(t, s.path, file); err != nil {
		t.Fatal(err)
	}
	var was int64
	for i, at := range []time.Duration{0, time.Minute, time.Hour, 24 * time.Hour, 365 * 24 * time.Hour} {
		dir := filepath.Join(temp, fmt.Sprint("d", i))
		_, err := Restore(t.Context(), RestoreOptions{DataDir: dir, File: file, Now: time.Now().Add(at), Kubernetes: kubernetes, Log: quiet})
		if err != nil {
			t.Fatal(err)
		}
		r := start(t, dir)
		if was > 0 {
			watching := <-r.Client().Watch(t.Context(), "key", clientv3.WithRev(was))
			if err := watching.Err(); !errors.Is(err, rpctypes.ErrCompacted) {
				t.Errorf("after %v: a watch of the last server goes on: %v", at, err)
			}
		}
		for range 20 {
			is := r.put(t, "key")
			if is <= was {
				t.Fatalf("after %v: revision %d after %d", at, is, was)
			}
			was = is
		}
	}
	now := time.Now()
	for _, c := range []struct {
		saved time.Time
		want  uint64
	}{{now.Add(time.Hour), revisionBump}, {now, revisionBump}, {now.Add(-time.Hour), revisionBump + 3600*bumpPerSecond}} {
		if is := ahead(c.saved, now); is != c.want {
			t.Errorf("saved at %v: %d, want %d", c.saved, is, c.want)
		}
	}
	if is := ahead(time.Time{}, now); is > 20_000_000_000_000 {
		t.Errorf("without a time: %d, which agents do not take for a revision after some restores", is)
	}
}

// A restore that fails leaves a directory that was there, and takes one with it that was not.
func TestRestoreFails(t *testing.T) {
	t.Parallel()
	temp := t.TempDir()
	s := start(t, filepath.Join(temp, "d"))
	file := filepath.Join(temp, "file")
	if err := save(t, s.path, file); err != nil {
		t.Fatal(err)
	}
	there := filepath.Join(temp, "there")
	if err := os.Mkdir(there, 0o750); err != nil {
		t.Fatal(err)
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	for _, dir := range []string{there, filepath.Join(temp, "new")} {
		d, err := datadir.Empty(dir)
		if err != nil {
			t.Fatal(err)
		}
		o := RestoreOptions{DataDir: dir, File: file, Now: time.Now(), Kubernetes: kubernetes, Log: quiet}
		if err := o.fill(canceled, d); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		if err := d.Discard(); err != nil {
			t.Error(err)
		}
	}
	if entries, err := os.ReadDir(there); err != nil || len(entries) > 0 {
		t.Errorf("the directory that was there: %v, %v", entries, err)
	}
	if _, err := os.Stat(filepath.Join(temp, "new")); err == nil {
		t.Error("a new directory is left")
	}
}

// What somebody has put into an archive is not unpacked, not kept in memory, and not waited for.
func TestHostileArchive(t *testing.T) {
	t.Parallel()
	temp := t.TempDir()
	s := start(t, filepath.Join(temp, "d"))
	file := filepath.Join(temp, "file")
	if err := save(t, s.path, file); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	record, err := s.dir.Record()
	if err != nil {
		t.Fatal(err)
	}
	first, err := json.Marshal(record)
	if err != nil {
		t.Fatal(err)
	}
	text := func(name string, size int) tar.Header { return tar.Header{Name: name, Size: int64(size), Mode: 0o600} }
	for name, headers := range map[string][]tar.Header{
		"path":       {text("../../evil", 10)},
		"root":       {text("/evil", 10)},
		"large":      {text("pki/ca.pem", maxFile+1)},
		"twice":      {text("etcd.db", 10), text("etcd.db", 10)},
		"same key":   {text("pki/ca.pem", 10), text("pki/ca.pem", 10)},
		"record":     {text("server.json", 10)},
		"link":       {{Name: "pki/ca.pem", Typeflag: tar.TypeSymlink, Linkname: "/etc/passwd"}},
		"hard link":  {{Name: "etcd.db", Typeflag: tar.TypeLink, Linkname: "/etc/passwd"}},
		"directory":  {{Name: "pki", Typeflag: tar.TypeDir, Mode: 0o777}},
		"device":     {{Name: "etcd.db", Typeflag: tar.TypeBlock}},
		"very many":  slices.Repeat([]tar.Header{text("x", 10)}, 1000),
		"long names": {text(strings.Repeat("x", 100_000), 10)},
	} {
		var data bytes.Buffer
		w := newWriter(&data, time.Now())
		if err := w.add(nameRecord, int64(len(first)), bytes.NewReader(first)); err != nil {
			t.Fatal(err)
		}
		for i, header := range headers {
			if name == "very many" {
				header.Name += fmt.Sprint(i)
			}
			if err := w.to.WriteHeader(&header); err != nil {
				t.Fatal(name, err)
			}
			content := bytes.Repeat([]byte("x"), int(header.Size))
			if _, err := w.to.Write(content); err != nil {
				t.Fatal(name, err)
			}
			w.manifest.Sums[header.Name] = fmt.Sprintf("%x", sha256.Sum256(content))
		}
		if w.manifest.Sums[nameDatabase] == "" {
			if err := w.add(nameDatabase, 1, strings.NewReader("x")); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.close(); err != nil {
			t.Fatal(err)
		}
		refuse(t, temp, name, data.Bytes())
	}
	refuse(t, temp, "holes", withHoles(whole))
}

// withHoles is a snapshot whose database says to be of 8 GiB, all of them a hole, as GNU tar writes it.
func withHoles(whole []byte) []byte {
	at := bytes.Index(whole, []byte(nameDatabase))
	holes := bytes.Clone(whole[:at+512])
	header := holes[at:]
	header[156] = tar.TypeGNUSparse
	copy(header[386:], "00000000000\x0000000000000\x00") // no data, and
	copy(header[124:], "00000000000\x00")                // none in the archive,
	copy(header[483:], "77777777777\x00")                // of 8 GiB
	sum := 8 * int(' ')
	for i, b := range header[:512] {
		if i < 148 || i >= 156 {
			sum += int(b)
		}
	}
	copy(header[148:], fmt.Sprintf("%06o\x00 ", sum))
	return append(holes, make([]byte, 1024)...)
}

// refuse restores something that is no snapshot.
func refuse(t *testing.T, temp, name string, data []byte) {
	t.Helper()
	bad, dir := filepath.Join(temp, name+".snapshot"), filepath.Join(temp, name)
	if err := os.WriteFile(bad, data, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := restore(t, dir, bad); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "unexpected") && !strings.Contains(err.Error(), "none of a cluster") || len(err.Error()) > 500 {
		t.Errorf("%s: %v", name, err)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Errorf("%s: a directory was made", name)
	}
}
