// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"testing"
	"testing/synctest"
)

// TestWhatMayWait: what peers have, and nothing that somebody waits for, or that may be had nowhere else.
func TestWhatMayWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		noted := ""
		r := restored(t, Options{Self: "z", PrivateKey: testKey("z"), Keyring: newRing("a"), Note: func() []byte { return []byte(noted) }}, nil, nil)
		log := &memoryLog{replica: r}
		if err := r.Open(1, log); err != nil {
			t.Fatal(err)
		}
		appended := func(what string, all, later int) {
			t.Helper()
			if len(log.queue) != all || log.later != later {
				t.Errorf("%s: %d operations, of which %d may wait; want %d and %d", what, len(log.queue), log.later, all, later)
			}
			log.commit(t, len(log.queue))
			log.later = 0
		}
		a, clone := newReplica(t, "a", 1), newReplica(t, "a", 1)
		merge(t, r, publish(t, a, Key{KindCluster, "a"}, Live, "cluster")...)
		merge(t, r, publish(t, a, rule("r"), Live, "rule")...)
		appended("what a peer sent", 2, 2)
		merge(t, r, publish(t, a, Key{KindAdmission, "b"}, Live, "admission")...)
		appended("an admission", 1, 0)
		merge(t, r, publish(t, clone, Key{KindCluster, "a"}, Live, "of a clone")...)
		appended("the proof of a clone", 1, 0)
		publish(t, r, rule("own"), Live, "own")
		appended("what is our own", 1, 0)
		noted = "noted"
		saved := make(chan error, 1)
		go func() { saved <- r.SaveNote(t.Context()) }()
		synctest.Wait()
		appended("a note", 1, 0)
		if err := <-saved; err != nil {
			t.Error(err)
		}
		r.Forget("a")
		appended("that a cluster is forgotten", 1, 0)
	})
}
