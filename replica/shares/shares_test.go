// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package shares

import (
	"cmp"
	"fmt"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// by is a tree by who admitted each.
func by(parents map[string]string) func(string) string {
	return func(id string) string { return parents[id] }
}

func TestOf(t *testing.T) {
	tree := by(map[string]string{"a": "me", "m": "me", "x1": "m", "x2": "m", "y": "x1", "lost-1": "", "lost-2": "lost-1", "o": "p", "p": "o"})
	for name, c := range map[string]struct{ wants, want map[string]int }{
		"one alone may have all":          {map[string]int{"a": 5}, map[string]int{"a": 120}},
		"siblings":                        {map[string]int{"a": 500, "m": 500}, map[string]int{"a": 60, "m": 60}},
		"what is unused is lent":          {map[string]int{"a": 10, "m": 500}, map[string]int{"a": 60, "m": 110}},
		"who wants nothing yet":           {map[string]int{"a": 0, "m": 500}, map[string]int{"a": 60, "m": 120}},
		"a branch counts for one":         {map[string]int{"a": 500, "m": 500, "x1": 500, "x2": 500}, map[string]int{"a": 60, "m": 20, "x1": 20, "x2": 20}},
		"also where its head has nothing": {map[string]int{"a": 500, "x1": 500, "x2": 500}, map[string]int{"a": 60, "x1": 30, "x2": 30}},
		"level by level":                  {map[string]int{"a": 500, "x2": 500, "x1": 500, "y": 500}, map[string]int{"a": 60, "x2": 30, "x1": 15, "y": 15}},
		"first within the branch":         {map[string]int{"a": 500, "x1": 10, "x2": 500}, map[string]int{"a": 60, "x1": 30, "x2": 50}},
		"who is lost counts for one":      {map[string]int{"a": 500, "lost-1": 500, "lost-2": 500, "o": 500}, map[string]int{"a": 60, "lost-1": 15, "lost-2": 15, "o": 30}},
	} {
		if got := Of(120, "me", tree, c.wants); gocmp.Diff(c.want, got) != "" {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// A cluster gets the same however many its sibling admits, and whatever those want; nothing is given out twice, and nobody waits
// while something is unused.
func TestLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		parents, ids, wants := map[string]string{}, []string{"me"}, map[string]int{}
		for i := range rapid.IntRange(1, 12).Draw(t, "clusters") {
			id := fmt.Sprint("c", i)
			parents[id] = rapid.SampledFrom(append([]string{"", "elsewhere"}, ids...)).Draw(t, "parent")
			wants[id] = rapid.IntRange(0, 40).Draw(t, "wants")
			ids = append(ids, id)
		}
		total := rapid.IntRange(0, 200).Draw(t, "total")
		shares, all, taken := Of(total, "me", by(parents), wants), 0, 0
		for id, w := range wants {
			all += w
			taken += min(w, shares[id])
		}
		if taken > total {
			t.Fatalf("%d of %d are taken", taken, total)
		}
		for id, share := range shares {
			if all <= total && wants[id] > share {
				t.Fatalf("%s may have %d, and %d are unused", id, share, total-all)
			}
			more := map[string]int{}
			for other, w := range wants {
				more[other] = min(w, shares[other])
			}
			more[id] = share
			again := Of(total, "me", by(parents), more)
			taken = 0
			for other, w := range more {
				taken += min(w, again[other])
			}
			if again[id] < share || taken > total {
				t.Fatalf("%s may have %d, and having that %d; %d of %d are taken", id, share, again[id], taken, total)
			}
		}
		wants["honest"], parents["honest"] = 1000, "me"
		wants["bad"], parents["bad"] = 1000, "me"
		before := Of(total, "me", by(parents), wants)
		for i := range rapid.IntRange(1, 20).Draw(t, "invented") {
			id := fmt.Sprint("invented-", i)
			parents[id] = rapid.SampledFrom([]string{"bad", "invented-0"}[:min(i+1, 2)]).Draw(t, "by")
			wants[id] = 1000
		}
		after := Of(total, "me", by(parents), wants)
		for id := range before {
			if id != "bad" && after[id] != before[id] {
				t.Fatalf("%s had %d, and has %d beside the inventions of another", id, before[id], after[id])
			}
		}
	})
}

func TestFirst(t *testing.T) {
	var got []int
	for n := range First([]int{3, 1, 4, 1, 5, 9, 2, 6}, cmp.Compare[int]) {
		if got = append(got, n); len(got) == 5 {
			break
		}
	}
	if !slices.Equal(got, []int{1, 1, 2, 3, 4}) {
		t.Errorf("%v", got)
	}
}

// BenchmarkOf is with as many as a mesh introduces, below one.
func BenchmarkOf(b *testing.B) {
	for _, n := range []int{500, 4096} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			parents, wants := map[string]string{"m": "me"}, map[string]int{}
			for i := range n {
				id := fmt.Sprintf("invented-%04d", i)
				parents[id], wants[id] = "m", 1000+i
			}
			for b.Loop() {
				Of(1<<20, "me", by(parents), wants)
			}
		})
	}
}
