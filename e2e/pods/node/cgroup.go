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

// controllers are those that a node takes. The kubelet also wants hugetlb, of cgroup v2 and where there is one.
func controllers() []string { return []string{"cpuset", "cpu", "memory", "pids"} }

// unified says that this machine has cgroup v2 alone: one hierarchy with every controller.
func unified() bool { return exists(filepath.Join(cgroupFS, "cgroup.controllers")) }

// memoryRoot is the hierarchy that accounts for memory. Every cgroup of a node is in it, too.
func memoryRoot() string {
	if unified() {
		return cgroupFS
	}
	return filepath.Join(cgroupFS, "memory")
}

// cgroupRoots are the mounted hierarchies. Of v1 the kubelet wants its root in each, the named systemd one too.
func cgroupRoots() ([]string, error) {
	if unified() {
		return []string{cgroupFS}, delegate(cgroupFS)
	}
	entries, err := os.ReadDir(cgroupFS)
	if err != nil {
		return nil, err
	}
	var roots []string
	for _, e := range entries {
		if e.IsDir() && e.Name() != "unified" { // nor the links that stand for parts of one hierarchy
			roots = append(roots, filepath.Join(cgroupFS, e.Name()))
		}
	}
	return roots, nil
}

// delegate gives the controllers to the cgroups below one of v2. The kernel refuses that where processes are in the
// cgroup itself, unless it is the machine's root.
func delegate(cgroup string) error {
	read := func(file string) ([]string, error) {
		data, err := os.ReadFile(filepath.Join(cgroup, file))
		return strings.Fields(string(data)), err
	}
	there, err := read("cgroup.controllers")
	if err != nil {
		return err
	}
	given, err := read("cgroup.subtree_control")
	if err != nil {
		return err
	}
	for _, name := range append(controllers(), "hugetlb") {
		switch {
		case slices.Contains(given, name), name == "hugetlb" && !slices.Contains(there, name):
			continue
		case !slices.Contains(there, name):
			return fmt.Errorf("%s has no controller %s", cgroup, name)
		}
		if err := os.WriteFile(filepath.Join(cgroup, "cgroup.subtree_control"), []byte("+"+name), 0o600); err != nil {
			return fmt.Errorf("give the controller %s to the cgroups below %s: %w", name, cgroup, err)
		}
	}
	return nil
}

// makeCgroup makes a cgroup of that name in every hierarchy. A cpuset of v1 begins empty, and nothing can be put into
// it.
func makeCgroup(name string) error {
	roots, err := cgroupRoots()
	if err != nil {
		return err
	}
	for _, root := range roots {
		if err := os.Mkdir(filepath.Join(root, name), 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	if unified() {
		return delegate(filepath.Join(cgroupFS, name))
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
	entries, err := os.ReadDir(memoryRoot())
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
	err := filepath.WalkDir(filepath.Join(memoryRoot(), name), func(path string, d fs.DirEntry, err error) error {
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

// memoryLimit is that of a cgroup, in bytes.
func memoryLimit(cgroup string) (int, error) {
	file := "memory.limit_in_bytes"
	if unified() {
		file = "memory.max"
	}
	data, err := os.ReadFile(filepath.Join(cgroup, file))
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(data)))
}

// cgroupFolder finds the memory cgroup whose name holds a container's ID.
func cgroupFolder(name, id string) (found string, err error) {
	if id == "" {
		return "", errors.New("the container has no ID yet")
	}
	err = filepath.WalkDir(filepath.Join(memoryRoot(), name), func(path string, d fs.DirEntry, err error) error {
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
