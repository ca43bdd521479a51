// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package shares

import (
	"container/heap"
	"iter"
)

// First yields items in an order, as far as they are asked for: so the first few of many cost little more than a look at each. It
// changes the order of items.
func First[T any](items []T, compare func(a, b T) int) iter.Seq[T] {
	return func(yield func(T) bool) {
		h := &ordered[T]{items, compare}
		heap.Init(h)
		for h.Len() > 0 && yield(heap.Pop(h).(T)) { //nolint:revive // the work is in the condition
		}
	}
}

type ordered[T any] struct {
	items   []T
	compare func(a, b T) int
}

func (h *ordered[T]) Len() int           { return len(h.items) }
func (h *ordered[T]) Less(i, j int) bool { return h.compare(h.items[i], h.items[j]) < 0 }
func (h *ordered[T]) Swap(i, j int)      { h.items[i], h.items[j] = h.items[j], h.items[i] }
func (h *ordered[T]) Push(x any)         { h.items = append(h.items, x.(T)) }

func (h *ordered[T]) Pop() any {
	last := len(h.items) - 1
	x := h.items[last]
	h.items = h.items[:last]
	return x
}
