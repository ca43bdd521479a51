// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// smallDisk is a directory that holds so many bytes.
func smallDisk(t *testing.T, size int64) string {
	t.Helper()
	path := t.TempDir()
	if err := syscall.Mount("tmpfs", path, "tmpfs", 0, fmt.Sprintf("size=%d", size)); err != nil {
		t.Skip("a small disk is a tmpfs, which only root may mount:", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(path, syscall.MNT_DETACH) })
	return path
}

// full checks what is said of a disk that is full, and that nothing is left on it.
func full(t *testing.T, what, disk string, err error, names ...string) {
	t.Helper()
	if !errors.Is(err, syscall.ENOSPC) || strings.Contains(err.Error(), "\n") {
		t.Errorf("%s: %v", what, err)
		return
	}
	for _, name := range names {
		if !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v, which does not name %s", what, err, name)
		}
	}
	if left := tree(t, disk); len(left) > 0 {
		t.Errorf("%s: there is %v", what, left)
	}
}

// A disk that gets full in a save or in a restore is an error that names file and directory, and nothing is left on it,
// wherever that happens: also where etcd would end the process.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	temp := t.TempDir()
	s := start(t, filepath.Join(temp, "d"))
	for i := range 20 {
		if _, err := s.Client().Put(t.Context(), fmt.Sprint("key", i), string(bytes.Repeat([]byte("x"), 100_000))); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(temp, "file")
	if err := save(t, s.path, file); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	database := func(add int64) int64 { return info.Size()>>12<<12 + add } // about, for pages of 4 KiB
	sizes := map[string]int64{
		"nothing": 4096, "a part of the database": info.Size() / 2, "one copy": info.Size() + 100_000, "no log": 40 << 20,
	}
	for add := int64(-16 << 10); add <= 32<<10; add += 4 << 10 {
		sizes[fmt.Sprint("two copies and ", add)] = 2*database(0) + add
	}
	for what, size := range sizes {
		disk := smallDisk(t, size)
		full(t, "restore, "+what, disk, restore(t, filepath.Join(disk, "d"), file), file, filepath.Join(disk, "d"))
	}
	disk := smallDisk(t, info.Size()/2)
	target := filepath.Join(disk, "file")
	full(t, "save", disk, save(t, s.path, target), target)
	s.stop()
	for what, size := range map[string]int64{"a part of the database": info.Size() / 2, "no log": 40 << 20, "no file": 64<<20 + info.Size() + 100_000} {
		disk := smallDisk(t, size)
		target := filepath.Join(disk, "file")
		full(t, "save of a copy, "+what, disk, save(t, s.path, target), target)
	}
}
