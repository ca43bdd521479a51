// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"fmt"
	"maps"
	"runtime"
	"testing"
)

// A table has what was put there and not deleted, and gives back the memory of what was.
func TestTable(t *testing.T) {
	const many, left = 100_000, 10
	before := heap()
	var got table[int]
	for round := range 2 {
		want := map[string]int{}
		for i := range many {
			got.set(key(fmt.Sprint(i)), i+round)
		}
		full := heap()
		for i := range many {
			if i%(many/left) != 0 {
				got.delete(key(fmt.Sprint(i)))
				continue
			}
			want[fmt.Sprint(i)] = i + round
		}
		has := map[string]int{}
		for k, v := range got.entries {
			has[k.Name] = v
		}
		if _, there := got.get(key("1")); there || got.len() != left || !maps.Equal(has, want) {
			t.Errorf("there are %v, want %v", has, want)
		}
		if kept := heap() - before; kept > (full-before)/10 {
			t.Errorf("%d keys take %d KiB; %d took %d KiB", left, kept>>10, many, (full-before)>>10)
		}
	}
	runtime.KeepAlive(&got)
}

// Keys that come and go all the time are copied seldom.
func TestTableIsCopiedSeldom(t *testing.T) {
	var got table[int]
	copies := 0
	for i := range 100_000 {
		got.set(key(fmt.Sprint(i)), i)
		peak := got.peak
		if i >= few {
			got.delete(key(fmt.Sprint(i - few)))
		}
		if got.peak < peak {
			copies++
		}
	}
	if copies > 0 || got.len() != few {
		t.Errorf("%d times, %d keys", copies, got.len())
	}
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc) //nolint:gosec // Less than the machine has.
}
