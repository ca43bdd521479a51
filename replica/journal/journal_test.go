// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(victimDir); dir != "" {
		victim(dir)
	}
	// raft answers some futures never once the disk has failed: see await.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/roster-mesh/roster/replica/journal.(*Journal).await.func1"))
}

const within = 60 * time.Second

// table is a Machine: the last value of each key. An operation is a byte for the key, and the value.
type table struct {
	mu     sync.Mutex
	values map[byte]string
	mine   int
	theirs int
}

func (m *table) Apply(ops [][]byte, mine bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, op := range ops {
		if len(op) == 0 {
			return errors.New("an operation is empty")
		}
		m.values[op[0]] = string(op[1:])
		if mine {
			m.mine++
		} else {
			m.theirs++
		}
	}
	return nil
}

func (m *table) Snapshot() func(io.Writer) error {
	m.mu.Lock()
	values := maps.Clone(m.values)
	m.mu.Unlock()
	return func(w io.Writer) error {
		for key, value := range values {
			b := binary.BigEndian.AppendUint32([]byte{key}, uint32(len(value)))
			if _, err := w.Write(append(b, value...)); err != nil {
				return err
			}
		}
		return nil
	}
}

func (m *table) Restore(r io.Reader) error {
	data, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.values)
	for len(data) > 0 {
		size := binary.BigEndian.Uint32(data[1:])
		m.values[data[0]] = string(data[5 : 5+size])
		data = data[5+size:]
	}
	return nil
}

func (m *table) applied() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.mine + m.theirs
}

func (m *table) get(key byte) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.values[key]
}

// opened is a journal with its machine and what it logged.
type opened struct {
	*Term

	journal *Journal
	table   *table
	said    *bytes.Buffer
}

func options(dir string) (Options, *opened) {
	o := &opened{said: &bytes.Buffer{}}
	return Options{
		Dir: dir, ClusterID: "c1", PublicKey: []byte("key"),
		Machine: func() (Machine, error) { o.table = &table{values: map[byte]string{}}; return o.table, nil },
		Log:     slog.New(slog.NewTextHandler(o.said, nil)),
	}, o
}

func openDir(t *testing.T, dir string) *opened {
	t.Helper()
	options, o := options(dir)
	o.open(t, options)
	return o
}

func (o *opened) open(t *testing.T, options Options) {
	t.Helper()
	var err error
	if o.journal, err = Open(t.Context(), options); err != nil {
		t.Fatal(err)
	}
	if o.Term, err = o.journal.Lead(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func (o *opened) close(t *testing.T) {
	t.Helper()
	o.End()
	if err := o.journal.Close(); err != nil {
		t.Fatal(err)
	}
}

func (o *opened) await(t *testing.T, applied int) {
	t.Helper()
	await(t, fmt.Sprintf("%d operations", applied), func() bool { return o.table.applied() >= applied })
}

func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(within); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %s", within, what)
		}
	}
}

func TestReopen(t *testing.T) {
	dir := t.TempDir()
	o := openDir(t, dir)
	for i := range 1000 {
		o.Append(fmt.Appendf([]byte{byte(i % 7)}, "%d", i))
	}
	o.close(t) // writes what waits
	if o.table.mine != 1000 {
		t.Fatalf("%d of 1000 operations are durable", o.table.mine)
	}
	want := o.table.values
	o = openDir(t, dir)
	defer o.close(t)
	if !maps.Equal(o.table.values, want) || o.table.theirs != 1000 || o.table.mine != 0 {
		t.Fatalf("%d operations came back: %v, not %v", o.table.theirs, o.table.values, want)
	}
	if o.said.Len() > 0 {
		t.Errorf("it said: %s", o.said)
	}
	o.Append([]byte("xy"))
	o.await(t, 1001)
	if o.table.mine != 1 {
		t.Error("a new operation is not ours")
	}
}

// TestBurst: operations that come together are written together.
func TestBurst(t *testing.T) {
	o := openDir(t, t.TempDir())
	defer o.close(t)
	before, err := o.journal.stores.LastIndex()
	if err != nil {
		t.Fatal(err)
	}
	for i := range 1000 {
		o.Append(fmt.Appendf([]byte{1}, "%d", i))
	}
	o.await(t, 1000)
	after, err := o.journal.stores.LastIndex()
	if err != nil {
		t.Fatal(err)
	}
	if commits := after - before; commits > 100 {
		t.Errorf("%d commits for 1000 operations", commits)
	}
	o.Append([]byte{1})
	o.await(t, 1001)
	if last, err := o.journal.stores.LastIndex(); err != nil || last != after+1 {
		t.Errorf("one operation took %d commits, %v", last-after, err)
	}
}

// TestDiskIsBounded: the log is compacted by its size.
func TestDiskIsBounded(t *testing.T) {
	dir := t.TempDir()
	o := openDir(t, dir)
	const size, count, keys = 100 << 10, 1000, 20 // 100 MB, of which 2 MB are held
	value := bytes.Repeat([]byte("0123456789abcdef"), size/16)
	most := int64(0)
	for i := range count {
		if err := o.Wait(); err != nil {
			t.Fatal(err)
		}
		o.Append(append([]byte{byte(i % keys)}, value...))
		if i%50 == 0 {
			most = max(most, used(t, dir))
		}
	}
	o.await(t, count)
	o.close(t)
	if most = max(most, used(t, dir)); most > 8*(8<<20) {
		t.Errorf("%d MiB on disk", most>>20)
	}
	t.Logf("%d MiB at most", most>>20)
	o = openDir(t, dir)
	defer o.close(t)
	if len(o.table.values) != keys || o.table.get(3) != string(value) || o.table.theirs >= count {
		t.Errorf("%d keys came back, and %d operations were replayed", len(o.table.values), o.table.theirs)
	}
}

func used(t *testing.T, dir string) (size int64) {
	t.Helper()
	for _, info := range files(t, dir) {
		size += info.Size()
	}
	return size
}

func files(t *testing.T, dir string) map[string]fs.FileInfo {
	t.Helper()
	found := map[string]fs.FileInfo{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			found[path] = info
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// TestIdle: a journal to which nothing is appended writes nothing.
func TestIdle(t *testing.T) {
	dir := t.TempDir()
	o := openDir(t, dir)
	defer o.close(t)
	o.Append([]byte("xy"))
	o.await(t, 1)
	writes := func() int64 {
		stats := o.journal.stores.Stats()
		return stats.TxStats.GetWrite()
	}
	before, pages := files(t, dir), writes()
	for end := time.Now().Add(3 * time.Second); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		after := files(t, dir)
		if !maps.EqualFunc(before, after, func(a, b fs.FileInfo) bool {
			return a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
		}) {
			t.Fatalf("%v became %v", before, after)
		}
	}
	if now := writes(); now != pages {
		t.Errorf("%d writes", now-pages)
	}
}

func TestOneProcess(t *testing.T) {
	dir := t.TempDir()
	o := openDir(t, dir)
	defer o.close(t)
	options, _ := options(dir)
	if _, err := Open(t.Context(), options); !errors.Is(err, ErrInUse) {
		t.Errorf("opened twice: %v", err)
	}
}

// What another process has open is not counted, claimed or set aside.
func TestInUseIsLeftAlone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	o := openDir(t, dir)
	for what, prepare := range map[string]func(*Options){
		"after starts that were killed": func(*Options) {
			if err := os.WriteFile(filepath.Join(dir, attemptsFile), []byte("3"), 0o600); err != nil {
				t.Fatal(err)
			}
		},
		"under another key": func(o *Options) { o.PublicKey = []byte("other") },
	} {
		options, _ := options(dir)
		prepare(&options)
		if _, err := Open(t.Context(), options); !errors.Is(err, ErrInUse) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := os.Remove(filepath.Join(dir, attemptsFile)); err != nil {
		t.Fatal(err)
	}
	o.Append([]byte("xy"))
	o.await(t, 1)
	o.close(t)
	again := openDir(t, dir)
	defer again.close(t)
	if again.table.get('x') != "y" {
		t.Error("what was written meanwhile is lost")
	}
}

func TestOtherCluster(t *testing.T) {
	dir := t.TempDir()
	o := openDir(t, dir)
	o.Append([]byte("xy"))
	o.close(t)
	options, other := options(dir)
	options.ClusterID = "c2"
	if _, err := Open(t.Context(), options); !errors.Is(err, ErrOtherCluster) || !strings.Contains(err.Error(), "c1") {
		t.Errorf("opened for another cluster: %v", err)
	}
	options.ClusterID, options.PublicKey = "c1", []byte("another key")
	var said bytes.Buffer
	options.Log = slog.New(slog.NewTextHandler(&said, nil))
	other.open(t, options)
	if other.close(t); other.table.theirs != 0 {
		t.Error("what another key signed was read")
	}
	if !strings.Contains(said.String(), "has another key") || strings.Contains(said.String(), "level=ERROR") {
		t.Errorf("that it has another key, as after it left, is said as %s", &said)
	}
}

// TestDiskFails: the journal ends with the error, and says what waited to nobody.
func TestDiskFails(t *testing.T) {
	o := openDir(t, t.TempDir())
	if err := o.journal.stores.Close(); err != nil {
		t.Fatal(err)
	}
	o.Append([]byte("xy"))
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	if err := o.Run(ctx); err == nil || !strings.Contains(err.Error(), "write the log") {
		t.Errorf("it ended with %v", err)
	}
	if err := o.Wait(); err == nil || o.table.applied() > 0 {
		t.Error("it goes on")
	}
	o.close(t)
}

func TestUnknownOperation(t *testing.T) {
	dir := t.TempDir()
	o := openDir(t, dir)
	o.Append([]byte("xy"))
	o.Append(nil) // of which this version makes nothing
	if err := o.Run(t.Context()); err == nil {
		t.Error("it goes on")
	}
	o.close(t)
	o = openDir(t, dir)
	defer o.close(t)
	if o.table.applied() > 0 || !strings.Contains(o.said.String(), "cannot be used") {
		t.Errorf("%d operations came back: %s", o.table.applied(), o.said)
	}
}
