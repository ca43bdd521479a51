// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// TestWhatIsLetGoForNothingIsTold: an older epoch makes room for an entry that finds none even so, whether it still has a layer or was
// only shown.
func TestWhatIsLetGoForNothingIsTold(t *testing.T) {
	for epochs := uint64(1); epochs <= maxLayers; epochs++ {
		b := limited(t, "b", Limits{Bytes: 3000}, "a")
		var told []Change
		b.Subscribe(func(changes []Change) { told = append(told, changes...) })
		for epoch := range epochs {
			merge(t, b, publish(t, newReplica(t, "a", epoch+1), rule(fmt.Sprint("r", epoch)), Live, "x")...)
		}
		told = nil
		large := publish(t, newReplica(t, "a", epochs+1), rule("large"), Live, strings.Repeat("x", 3000))[0]
		if _, _, err := b.Merge(large, ""); !errors.Is(err, ErrFull) {
			t.Fatal(err)
		}
		if _, ok := b.Lookup(rule("r0"), "a"); ok || !slices.Contains(told, Change{Origin: "a"}) {
			t.Errorf("after %d epochs the first entry is held: %t; told %v", epochs, ok, told)
		}
		told = nil
		if _, _, err := b.Merge(large, ""); !errors.Is(err, ErrFull) || len(told) > 0 {
			t.Errorf("the second time %v, told %v", err, told)
		}
	}
}

// TestSteadyDemandSettles: where more is said than there is room for, each member stops taking and asking, whatever of it the others
// hold, and none of them has an origin give way for what gave way to that one.
func TestSteadyDemandSettles(t *testing.T) {
	for seed := range uint64(12) {
		rnd := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // the same each time
		var ids []string
		for n := range 8 {
			ids = append(ids, fmt.Sprint("o", n))
		}
		members := []*Replica{
			limited(t, "b", Limits{TotalBytes: 30_000, Bytes: 20_000}, ids...),
			limited(t, "c", Limits{TotalBytes: 30_000, Bytes: 20_000}, ids...),
			limited(t, "d", Limits{TotalBytes: 20_000, Bytes: 20_000}, ids...),
		}
		for _, m := range members { // each has a tree of its own
			for _, id := range ids[1:] {
				if rnd.IntN(2) == 0 {
					m.keyring.(*ring).via[id] = ids[0]
				}
			}
		}
		all := slices.Clone(members)
		for _, id := range ids {
			a := newReplica(t, id, 1)
			publish(t, a, Key{KindCluster, id}, Live, "cluster")
			for n := range 4 + rnd.IntN(20) {
				publish(t, a, rule(fmt.Sprint("r", n)), Live, strings.Repeat("x", rnd.IntN(3000)>>rnd.IntN(4)))
			}
			a.Complete()
			all = append(all, a)
		}
		round := func() (sent int) {
			for _, to := range members {
				for _, at := range rnd.Perm(len(all)) {
					if peer := all[at]; peer != to && lacks(t, to, peer) {
						sent += pullFull(t, to, peer)
					}
				}
			}
			return sent
		}
		var sent []int
		for range 40 {
			sent = append(sent, round())
		}
		if last := sent[len(sent)-5:]; !slices.Equal(last, make([]int, 5)) {
			t.Errorf("seed %d: still exchanging: %d", seed, sent)
		}
		for _, m := range members {
			if m.Stats().Full == 0 {
				t.Errorf("seed %d: %s has room for all", seed, m.self)
			}
		}
	}
}
