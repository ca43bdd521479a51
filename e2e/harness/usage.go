// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// ServerPIDs are the process ids of the cluster's control plane by component: etcd, apiserver and controller-manager, or
// apiserver alone where that is all of it. A component that does not run is absent.
func (c *Cluster) ServerPIDs() (map[string]int, error) {
	path := filepath.Join(c.fleet.testbedDir(), "pids.json")
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	pids, err := pidsOf(data, c.Index)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return pids, nil
}

// pidsOf reads the ids of one control plane from the testbed's list.
func pidsOf(list []byte, index int) (map[string]int, error) {
	var all map[string]int
	if err := json.Unmarshal(list, &all); err != nil {
		return nil, err
	}
	pids := map[string]int{}
	for name, pid := range all {
		if component, found := strings.CutSuffix(name, fmt.Sprintf("-%d", index)); found {
			pids[component] = pid
		}
	}
	return pids, nil
}

// ResidentMemory is what a process holds in memory, in bytes.
func ResidentMemory(pid int) (int, error) {
	m, err := ReadMemory(pid)
	return m.Resident, err
}

// Memory is what a process holds in memory, in bytes.
type Memory struct {
	Resident  int // of it, the program's file may be shared and be given back at any time
	Anonymous int // what it allocated
	Peak      int // the most that was resident since the start, or ResetPeakMemory
}

// ReadMemory reads the Memory of a process.
func ReadMemory(pid int) (Memory, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return Memory{}, err
	}
	var m Memory
	fields := map[string]*int{"VmRSS": &m.Resident, "RssAnon": &m.Anonymous, "VmHWM": &m.Peak}
	for line := range strings.Lines(string(data)) {
		name, value, _ := strings.Cut(line, ":")
		if field := fields[name]; field != nil {
			kib, err := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(value), " kB"))
			if err != nil {
				return Memory{}, fmt.Errorf("/proc/%d/status: %w", pid, err)
			}
			*field = kib << 10
		}
	}
	if m.Resident == 0 {
		return m, fmt.Errorf("process %d has no resident memory", pid)
	}
	return m, nil
}

// ResetPeakMemory makes Memory.Peak start again from what is resident now.
func ResetPeakMemory(pid int) error {
	return os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0)
}

// giveWay has a thread run only while a processor has nothing else to do: at the lowest priority of others it would still have its part of each.
func giveWay(thread int) error {
	return unix.SchedSetAttr(thread, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_IDLE}, 0)
}

// YieldThread has the calling goroutine give way to all others until it ends, on a thread of its own.
func YieldThread() error {
	runtime.LockOSThread()
	return giveWay(0)
}

// Yield has a process give way to all others from now on: it gets what they leave.
func Yield(pid int) error {
	for lowered := map[int]bool{}; ; { // until no thread is new: later ones are like those that start them
		threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
		if err != nil {
			return err
		}
		before := len(lowered)
		for _, thread := range threads {
			id, err := strconv.Atoi(thread.Name())
			if err != nil {
				return err
			}
			if err := giveWay(id); err != nil && !errors.Is(err, unix.ESRCH) {
				return fmt.Errorf("thread %d: %w", id, err)
			}
			lowered[id] = true
		}
		if len(lowered) == before {
			return nil
		}
	}
}

// clockTick is the unit of times in /proc/PID/stat: USER_HZ, which is 100 on every Linux that Go runs on.
const clockTick = 10 * time.Millisecond

// CPUTime is what a process has used since it started, in user and kernel mode.
func CPUTime(pid int) (time.Duration, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// The second field is the program's name in parentheses and may hold anything.
	_, rest, _ := strings.Cut(string(data), ") ")
	fields := strings.Fields(rest)
	const utime, stime = 11, 12
	if len(fields) <= stime {
		return 0, fmt.Errorf("/proc/%d/stat is too short", pid)
	}
	user, err := strconv.Atoi(fields[utime])
	if err != nil {
		return 0, err
	}
	system, err := strconv.Atoi(fields[stime])
	return time.Duration(user+system) * clockTick, err
}
