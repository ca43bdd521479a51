// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	cgroupFS     = "/sys/fs/cgroup"
	cgroupPrefix = "roster-pods-"
)

// cgroupRoots are the mounted v1 hierarchies. The kubelet wants its root in each, the named systemd one too.
func cgroupRoots() ([]string, error) {
	entries, err := os.ReadDir(cgroupFS)
	if err != nil {
		return nil, err
	}
	if !exists(filepath.Join(cgroupFS, "memory", "memory.limit_in_bytes")) {
		return nil, nil // v2 alone
	}
	var roots []string
	for _, e := range entries {
		if e.IsDir() { // not the links that stand for parts of one hierarchy
			roots = append(roots, filepath.Join(cgroupFS, e.Name()))
		}
	}
	return roots, nil
}

// makeCgroup makes a cgroup of that name in every hierarchy. A cpuset begins empty, and nothing can be put into it.
func makeCgroup(name string) error {
	roots, err := cgroupRoots()
	if err != nil {
		return err
	}
	for _, root := range roots {
		if filepath.Base(root) == "unified" {
			continue
		}
		if err := os.Mkdir(filepath.Join(root, name), 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
		data, err := os.ReadFile(filepath.Join(cgroupFS, "cpuset", file))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(cgroupFS, "cpuset", name, file), data, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// removeCgroup removes it with all below. Processes that were just killed leave it a moment later.
func removeCgroup(name string, within time.Duration) error {
	roots, err := cgroupRoots()
	if err != nil {
		return err
	}
	deadline := time.Now().Add(within)
	for _, root := range roots {
		for {
			err := removeTree(filepath.Join(root, name))
			if err == nil {
				break
			}
			if time.Now().After(deadline) {
				return fmt.Errorf("remove cgroup: %w", err)
			}
			time.Sleep(poll)
		}
	}
	return nil
}

// removeTree is rmdir from the leaves up: the files of a cgroup cannot be removed, and go with it.
func removeTree(dir string) error {
	var dirs []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			dirs = append(dirs, path)
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
	for _, path := range slices.Backward(dirs) {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return err
}

func cgroupName(cluster string) string {
	return cgroupPrefix + strconv.Itoa(os.Getpid()) + "-" + cluster
}

// sweepCgroups removes those of processes that were killed before they could do it.
func sweepCgroups() error {
	entries, err := os.ReadDir(filepath.Join(cgroupFS, "memory"))
	if err != nil {
		return err
	}
	for _, e := range entries {
		rest, ours := strings.CutPrefix(e.Name(), cgroupPrefix)
		id, _, _ := strings.Cut(rest, "-")
		if pid, err := strconv.Atoi(id); !ours || err != nil || pid == os.Getpid() || alive(pid) {
			continue
		}
		if err := removeCgroup(e.Name(), time.Second); err != nil {
			return err
		}
	}
	return nil
}

func alive(pid int) bool {
	_, err := os.Stat("/proc/" + strconv.Itoa(pid))
	return err == nil
}

// cgroupProcesses are the processes in a cgroup and all below whose path holds a word, such as a container's ID.
func cgroupProcesses(name, word string) ([]int, error) {
	var pids []int
	err := filepath.WalkDir(filepath.Join(cgroupFS, "memory", name), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Name() != "cgroup.procs" || !strings.Contains(path, word) {
			if errors.Is(err, fs.ErrNotExist) {
				return nil // it ended while we looked
			}
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return nil // the same
		}
		for field := range strings.FieldsSeq(string(data)) {
			pid, err := strconv.Atoi(field)
			if err != nil {
				return err
			}
			pids = append(pids, pid)
		}
		return nil
	})
	return pids, err
}

// cgroupFolder finds the memory cgroup whose name holds a container's ID.
func cgroupFolder(name, id string) (found string, err error) {
	if id == "" {
		return "", errors.New("the container has no ID yet")
	}
	err = filepath.WalkDir(filepath.Join(cgroupFS, "memory", name), func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && strings.Contains(d.Name(), id) {
			found = path
			return fs.SkipAll
		}
		return err
	})
	if err == nil && found == "" {
		err = fmt.Errorf("no cgroup of container %s", id)
	}
	return found, err
}
