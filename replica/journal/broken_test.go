// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/raft"
)

// TestBrokenFiles: whatever becomes of the files, the journal opens: with all that was there, or with nothing, which it
// says in one line.
func TestBrokenFiles(t *testing.T) {
	whole := t.TempDir()
	o := openDir(t, whole)
	fill := func(from, to int) {
		for i := from; i < to; i++ {
			o.Append(append([]byte{byte(i % 9)}, make([]byte, 1000+i)...))
		}
	}
	fill(0, 50)
	o.await(t, 50)
	o.journal.takeSnapshot()
	fill(50, 80)
	o.close(t)
	want := o.table.values
	for name, harm := range harms(t, whole) {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.CopyFS(dir, os.DirFS(whole)); err != nil {
				t.Fatal(err)
			}
			harm(dir)
			for again := range 2 {
				o := openDir(t, dir)
				got, said := o.table.values, strings.Count(o.said.String(), "cannot be used")
				empty := len(got) == 0 && said == 1 && again == 0 || again == 1 && said == 0 && len(got) == 0
				if !empty && (!maps.Equal(got, want) || said > 0) {
					t.Errorf("%d keys of %d are there, and it said: %s", len(got), len(want), o.said)
				}
				o.close(t)
				if aside, _ := filepath.Glob(filepath.Join(dir, asidePrefix+"*")); len(aside) > 1 {
					t.Errorf("left lying about: %v", aside)
				}
			}
		})
	}
}

// harms are things that happen to a directory like whole.
func harms(t *testing.T, whole string) map[string]func(dir string) {
	t.Helper()
	out := map[string]func(string){
		"nothing":       func(string) {},
		"killed thrice": func(dir string) { overwrite(t, filepath.Join(dir, attemptsFile), []byte("3")) },
		"killed twice":  func(dir string) { overwrite(t, filepath.Join(dir, attemptsFile), []byte("2")) },
		"odd attempts":  func(dir string) { overwrite(t, filepath.Join(dir, attemptsFile), []byte("x")) },
		"no raft":       func(dir string) { remove(t, filepath.Join(dir, raftDir)); said(t, dir) },
		"no owner":      func(dir string) { remove(t, filepath.Join(dir, ownerFile)) },
		"odd owner":     func(dir string) { overwrite(t, filepath.Join(dir, ownerFile), []byte("{")) },
		"half a snapshot": func(dir string) {
			remove(t, filepath.Join(dir, raftDir, "snapshots", "9-9-9.tmp"))
			if err := os.MkdirAll(filepath.Join(dir, raftDir, "snapshots", "9-9-9.tmp"), 0o700); err != nil {
				t.Fatal(err)
			}
		},
	}
	for page := range int64(2) {
		out[fmt.Sprintf("meta %d is damaged", page)] = func(dir string) {
			zero(t, filepath.Join(dir, raftDir, "log.db"), page*int64(os.Getpagesize())+metaAt, 8)
		}
	}
	random := rand.New(rand.NewPCG(*seed, 0))
	found := files(t, filepath.Join(whole, raftDir))
	for _, path := range slices.Sorted(maps.Keys(found)) {
		name, err := filepath.Rel(whole, path)
		if err != nil {
			t.Fatal(err)
		}
		size := found[path].Size()
		out["no "+name] = func(dir string) { remove(t, filepath.Join(dir, name)) }
		for range 12 {
			at := random.Int64N(size)
			out[fmt.Sprintf("%s ends at %d", name, at)] = func(dir string) {
				if err := os.Truncate(filepath.Join(dir, name), at); err != nil {
					t.Fatal(err)
				}
			}
			out[fmt.Sprintf("%s has zeros at %d", name, at)] = func(dir string) {
				zero(t, filepath.Join(dir, name), at, 4096)
			}
		}
	}
	return out
}

// TestCompactedMeanwhile: that an entry was compacted since raft was told of it ends no journal.
func TestCompactedMeanwhile(t *testing.T) {
	o := openDir(t, t.TempDir())
	defer o.close(t)
	o.Append([]byte("aone"))
	o.await(t, 1)
	s := o.journal.stores
	oldest, err := s.FirstIndex()
	if err != nil {
		t.Fatal(err)
	}
	if o.journal.takeSnapshot() == 0 {
		t.Fatal("there is no snapshot")
	}
	got := make(chan error, 1)
	go func() { got <- s.GetLog(oldest, new(raft.Log)) }()
	select {
	case err := <-got:
		if !errors.Is(err, raft.ErrLogNotFound) {
			t.Errorf("entry %d: %v", oldest, err)
		}
	case <-s.failed():
		t.Fatal(s.err())
	}
	o.Append([]byte("btwo"))
	o.await(t, 2)
}

// TestSnapshotOfAnother: an agent that was away for longer than the log of the others goes on behind a snapshot, and finds
// its disk whole when it starts again.
func TestSnapshotOfAnother(t *testing.T) {
	t.Parallel()
	m := newMembers(t)
	m.voters(t, m.leader(t), 3)
	at := (m.tell(t, 'a', "one") + 1) % 3
	id := m.up[at].journal.Status().ServerID
	m.stop(t, at)
	leader := m.leader(t)
	for i := range 300 {
		leader = m.append(t, leader, fmt.Appendf(nil, "a%d", i))
	}
	m.has(t, 'a', "299")
	for _, o := range m.up { // whichever leads later
		if o != nil && o.journal.takeSnapshot() == 0 {
			t.Fatal("there is no snapshot")
		}
	}
	m.start(t, at)
	m.has(t, 'a', "299")
	m.tell(t, 'a', "two")
	s := m.up[at].journal.stores
	if first, err := s.FirstIndex(); err != nil || first < 300 {
		t.Errorf("the log of the one that was away begins at %d: %v", first, err)
	}
	if err := s.verify(); err != nil {
		t.Error(err)
	}
	m.stop(t, at)
	m.start(t, at)
	if got := m.up[at].journal.Status().ServerID; got != id {
		t.Error("a disk that is whole was set aside")
	}
	m.has(t, 'a', "two")
}

// TestAttemptsInAGroup: a disk that is set aside for three starts that ended is a lost one, with another ID, and a record
// that cannot be read three times costs no disk.
func TestAttemptsInAGroup(t *testing.T) {
	t.Parallel()
	m := newMembers(t)
	m.voters(t, m.leader(t), 3)
	leader := m.tell(t, 'a', "one")
	at := (leader + 1) % 3
	before := m.up[at].journal.Status().ServerID
	m.stop(t, at)
	o, _ := m.options(at, nil)
	o.Group.Records = unreadable{}
	for range maxAttempts + 1 {
		if _, err := Open(t.Context(), o); !errors.Is(err, ErrRecord) {
			t.Fatal(err)
		}
	}
	m.start(t, at)
	if got := m.up[at].journal.Status().ServerID; got != before {
		t.Error("a record that cannot be read cost the disk")
	}
	m.stop(t, at)
	overwrite(t, filepath.Join(m.dirs[at], attemptsFile), []byte("3"))
	m.start(t, at)
	if got := m.up[at].journal.Status().ServerID; got == before {
		t.Error("what holds nothing any more goes on as the server that held something")
	}
	m.has(t, 'a', "one")
	m.voters(t, leader, 3)
}

// unreadable is a record that nobody can read.
type unreadable struct{ RecordStore }

func (unreadable) Read(context.Context) (Record, error) { return Record{}, errChanged }

// said puts a mark where an empty directory is expected without a word.
func said(t *testing.T, dir string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(dir, raftDir), 0o700); err != nil {
		t.Fatal(err)
	}
	overwrite(t, filepath.Join(dir, raftDir, "log.db"), []byte("no database"))
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.RemoveAll(path); err != nil {
		t.Fatal(err)
	}
}

func overwrite(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

func zero(t *testing.T, path string, at int64, size int) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	clear(data[at:min(at+int64(size), int64(len(data)))])
	overwrite(t, path, data)
}
