// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package standalone

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// resize mounts a file system of this size, or makes the one that is there so large.
func resize(t *testing.T, path string, mebibytes int, flags uintptr) {
	t.Helper()
	if err := syscall.Mount("tmpfs", path, "tmpfs", flags, fmt.Sprintf("size=%dm", mebibytes)); err != nil {
		t.Skip("this user may not mount a small file system: ", err)
	}
}

// used returns how many mebibytes of the file system are.
func used(t *testing.T, path string) int {
	t.Helper()
	var s syscall.Statfs_t
	if err := syscall.Statfs(path, &s); err != nil {
		t.Fatal(err)
	}
	return int((s.Blocks - s.Bfree) * uint64(s.Bsize) >> 20) //nolint:gosec // a block has some thousand bytes
}

// TestFullDisk: a disk that is full, at the first start or while the server serves, is one line at the end that names the
// directory. When there is room again, everything that was acknowledged is there.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	disk := t.TempDir()
	resize(t, disk, 20, 0)
	t.Cleanup(func() { _ = syscall.Unmount(disk, syscall.MNT_DETACH) })
	dir := filepath.Join(disk, "d")
	check := func(when string, code int, lines []string) {
		t.Helper()
		last := lines[len(lines)-1]
		if code != 1 || !strings.HasPrefix(last, "roster-apiserver: --data-dir "+dir+": ") || !strings.HasSuffix(last, "no space left on device") {
			t.Errorf("%s: code %d, %q", when, code, lines)
		}
		for _, line := range lines[:len(lines)-1] {
			if !expected(line) && !strings.Contains(line, "space") && !strings.Contains(line, "writeAt failed") {
				t.Errorf("%s it says, too: %q", when, line)
			}
		}
	}
	code, last := refused(t, dir, "--listen", "127.0.0.1:0")
	check("at the first start", code, []string{last})

	resize(t, disk, 200, syscall.MS_REMOUNT) // the log of etcd takes 64 of them, and as much again in the background
	s := start(t, dir)
	client := s.kubernetes(t).CoreV1().ConfigMaps("default")
	resize(t, disk, used(t, disk)+2, syscall.MS_REMOUNT)
	var acknowledged []string
	for i := 0; !s.Ended() && i < 1000; i++ {
		object := &corev1.ConfigMap{Data: map[string]string{"text": strings.Repeat("x", 200_000)}}
		object.Name = fmt.Sprintf("number-%d", i)
		if _, err := client.Create(t.Context(), object, metav1.CreateOptions{}); err == nil {
			acknowledged = append(acknowledged, object.Name)
		}
	}
	if !s.Ended() {
		t.Fatalf("%d writes and the disk is not full", len(acknowledged))
	}
	check("while it serves", s.Code(), strings.Split(strings.TrimSpace(s.stderr.String()), "\n"))
	if err := os.WriteFile(filepath.Join(disk, "other"), make([]byte, 1<<20), 0o600); err == nil {
		t.Error("the disk was not full")
	}

	resize(t, disk, 300, syscall.MS_REMOUNT)
	client = start(t, dir).kubernetes(t).CoreV1().ConfigMaps("default")
	for _, name := range acknowledged {
		if _, err := client.Get(t.Context(), name, metav1.GetOptions{}); err != nil {
			t.Error(err)
		}
	}
	t.Logf("%d writes before the disk was full", len(acknowledged))
}
