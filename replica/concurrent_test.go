// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"bytes"
	"fmt"
	"sync"
	"testing"
)

// Two replicas publish, gossip, pull and read at once, and agree in the end.
func TestConcurrentUse(t *testing.T) {
	var changes sync.Map
	ids := []string{"a", "b"}
	replicas := make([]*Replica, len(ids))
	for i, id := range ids {
		r, err := New(Options{
			Self: id, PrivateKey: testKey(id), Epoch: 1, Keyring: newRing(ids...),
		})
		if err != nil {
			t.Fatal(err)
		}
		r.Subscribe(func(cs []Change) { // it reads from within the call
			for _, c := range cs {
				changes.Store(c, len(replicas[i].Find(c.Key)))
			}
		})
		replicas[i] = r
	}
	var wg sync.WaitGroup
	for i, r := range replicas {
		peer := replicas[1-i]
		wg.Go(func() {
			for n := range 100 {
				msgs, err := r.Publish(rule(fmt.Sprintf("r%d", n%7)), Live, fmt.Appendf(nil, "%d", n))
				if err != nil {
					t.Error(err)
				}
				if n == 50 {
					msgs = append(msgs, r.Complete()...)
				}
				if n == 70 {
					if again, err := r.Reopen(2); err == nil {
						msgs = append(msgs, again...)
					}
				}
				if n%3 == 0 {
					continue // lost
				}
				for _, msg := range msgs {
					if _, _, err := peer.Merge(msg, ""); err != nil {
						t.Error(err)
					}
				}
			}
		})
		wg.Go(func() {
			for range 30 {
				err := peer.Delta(r.Digest(), func(msg []byte) error {
					_, _, err := r.Merge(msg, peer.self)
					return err
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
		wg.Go(func() {
			for range 50 {
				r.Entries(KindRule)
				r.Absent(rule("r1"), peer.self)
				r.Progress(peer.self)
				r.Stats()
				r.Clones()
				r.OwnEpochSeen()
			}
		})
	}
	wg.Wait()
	for range 2 {
		pullFrom(t, replicas[0], replicas[1])
		pullFrom(t, replicas[1], replicas[0])
	}
	if !bytes.Equal(replicas[0].Digest(), replicas[1].Digest()) {
		t.Errorf("replicas differ: %v %v", contents(replicas[0].state), contents(replicas[1].state))
	}
	if n := replicas[0].Stats(); n.Clones != 0 || n.Entries != 14 {
		t.Errorf("stats: %+v", n)
	}
}

// A delta to a slow reader stops nobody.
func TestDeltaEmitsWithoutLock(t *testing.T) {
	a, b := newReplica(t, "a", 1), newReplica(t, "b", 1, "a")
	publish(t, a, rule("r"), Live, "x")
	publish(t, a, rule("s"), Live, "x")
	emitted := 0
	err := a.Delta(b.Digest(), func([]byte) error {
		emitted++
		publish(t, a, rule("r"), Live, fmt.Sprint(emitted))
		return nil
	})
	if err != nil || emitted != 2 {
		t.Errorf("%d messages, %v", emitted, err)
	}
}
