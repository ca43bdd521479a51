// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestNeighbourLaws: everybody is reached from everybody over the chosen
// neighbours, their number depends on n alone, and the order of the list is nothing.
func TestNeighbourLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 60).Draw(t, "n")
		ids := rapid.Permutation(names(n)).Draw(t, "ids")
		graph := map[string][]string{}
		for _, id := range ids {
			others := slices.DeleteFunc(slices.Clone(ids), func(o string) bool { return o == id })
			graph[id] = neighbours(id, "secret of "+id, others)
			if len(graph[id]) != warmCount(n) || slices.Contains(graph[id], id) {
				t.Fatalf("%s of %d has neighbours %v", id, n, graph[id])
			}
			slices.Reverse(others)
			if !slices.Equal(graph[id], neighbours(id, "secret of "+id, others)) {
				t.Fatal("the order of the members matters")
			}
		}
		reached := map[string]bool{ids[0]: true}
		for todo := []string{ids[0]}; len(todo) > 0; todo = todo[1:] {
			for _, next := range graph[todo[0]] {
				if !reached[next] {
					reached[next] = true
					todo = append(todo, next)
				}
			}
		}
		if len(reached) != n {
			t.Fatalf("%d of %d reached", len(reached), n)
		}
	})
}

func TestWarmCount(t *testing.T) {
	for n, want := range map[int]int{0: 0, 1: 0, 2: 1, 3: 2, 5: 3, 10: 3, 50: 4, 500: 5} {
		if got := warmCount(n); got != want {
			t.Errorf("warmCount(%d) = %d, want %d", n, got, want)
		}
	}
}
