// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// What is counted of an object and its copy is what they take of the memory, be they small or large, and whether the copy is made or not.
func TestWhatAnObjectTakes(t *testing.T) {
	const n = 5000
	for _, tc := range []struct {
		size int
		made bool
	}{{1, true}, {1, false}, {1000, true}, {1000, false}} {
		inWorld(t, func(w *world) {
			w.kill()
			w.options = func(o *Options) {
				if !tc.made {
					o.Copies = 1
				}
			}
			w.start()
			for i := range n {
				w.peers[a].put(configMap(fmt.Sprintf("object-%06d", i), strings.Repeat("v", tc.size)))
			}
			before := heap()
			w.setRule(testRule("r"))
			w.settle()
			took := heap() - before
			var same []*unstructured.Unstructured // as the server here has
			before = heap()
			for _, obj := range w.local.objects {
				same = append(same, obj.DeepCopy())
			}
			took -= heap() - before
			runtime.KeepAlive(same)
			counted := w.e.views.memory.Of(a).Weight() + w.takes()
			t.Logf("an object with %d bytes, whose copy is made (%t): %d bytes, of which %d are counted", tc.size, tc.made, took/n, counted/n)
			if float64(took) > 1.2*float64(counted) {
				t.Errorf("%d objects with %d bytes, whose copies are made (%t), take %d bytes, and %d are counted", n, tc.size, tc.made, took, counted)
			}
		})
	}
}

// heap is how many bytes are in use.
func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc) //nolint:gosec // It is far from that many.
}
