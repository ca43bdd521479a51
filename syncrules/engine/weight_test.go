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

// What is counted of an object and its copies is what they take of the memory, be they small or large, whether they are made or not, and however many rules
// select it, for the same place or each for another one.
func TestWhatAnObjectTakes(t *testing.T) {
	for _, tc := range []struct {
		n, size, rules int
		made, moves    bool
	}{
		{n: 1000, size: 1, rules: 1, made: true},
		{n: 1000, size: 1, rules: 1},
		{n: 1000, size: 1000, rules: 1, made: true},
		{n: 1000, size: 1000, rules: 1},
		{n: 1000, size: 1, rules: 1, moves: true},
		{n: 300, size: 1, rules: 40, made: true},
		{n: 300, size: 1, rules: 40},
		{n: 100, size: 1, rules: 40, made: true, moves: true},
		{n: 100, size: 1, rules: 40, moves: true},
	} {
		inWorld(t, func(w *world) {
			w.kill()
			w.options = func(o *Options) {
				if o.Places, o.Copies = 1<<40, 1<<40; !tc.made {
					o.Copies = 1
				}
			}
			w.start()
			for i := range tc.n {
				w.peers[a].put(configMap(fmt.Sprintf("object-%06d", i), strings.Repeat("v", tc.size)))
			}
			before := heap()
			for i := range tc.rules {
				r := testRule(fmt.Sprintf("rule-%03d", i))
				if tc.moves {
					r = moving(r, "name", fmt.Sprintf("copy-%03d-of-{{ .Object.GetName }}", i))
				}
				w.setRule(r)
			}
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
			for i := range tc.rules {
				takes, _ := w.selection(fmt.Sprintf("rule-%03d", i), a)
				counted += takes
			}
			n := int64(tc.n)
			t.Logf("an object with %d bytes, selected by %d rules, each for another place (%t), whose copies are made (%t): %d bytes, of which %d are counted",
				tc.size, tc.rules, tc.moves, tc.made, took/n, counted/n)
			if float64(took) > 1.2*float64(counted) {
				t.Errorf("%d such objects take %d bytes, and %d are counted", n, took, counted)
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
