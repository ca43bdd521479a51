// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// ResidentMemory is what a process holds in memory, in bytes.
func ResidentMemory(pid int) (int, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(data)) {
		if value, found := strings.CutPrefix(line, "VmRSS:"); found {
			kib, err := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(value), " kB"))
			return kib << 10, err
		}
	}
	return 0, fmt.Errorf("process %d has no resident memory", pid)
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
