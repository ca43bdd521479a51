// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

func secret(name, value string) *unstructured.Unstructured {
	obj := configMap(name, value)
	obj.SetKind("Secret")
	return obj
}

// A webhook that does not answer about hundreds of objects of one kind holds up no others, also not those that are
// put up behind them all; and when it answers again all of its own follow.
func TestSlowWritesHoldUpNoOthers(t *testing.T) {
	inWorld(t, func(w *world) {
		hangs := func(o *unstructured.Unstructured) error {
			if o.GetKind() == "ConfigMap" {
				return statusError(500, metav1.StatusReasonInternalError, `Internal error occurred: failed calling webhook "slow.example.com": deadline exceeded`)
			}
			return nil
		}
		w.local.admits(hangs)
		w.local.lateKinds = map[string]time.Duration{"ConfigMap": 10 * time.Second}
		w.setRule(testRule("maps"))
		r := testRule("secrets")
		r.Spec.GVK = v1alpha1.GroupVersionKind{Version: "v1", Kind: "Secret"}
		w.setRule(r)
		for i := range 500 {
			w.peers[a].put(configMap(fmt.Sprintf("x%03d", i), "1"))
		}
		time.Sleep(20 * time.Second) // until the first ones have told what they are like
		for i := range 50 {
			s := secret(fmt.Sprintf("s%02d", i), "1")
			w.peers[a].put(s)
			time.Sleep(2 * time.Second)
			w.wantValue(serverKey(s), "1")
		}
		w.local.admits(nil)
		w.local.mu.Lock()
		w.local.lateKinds = nil
		w.local.mu.Unlock()
		time.Sleep(10 * time.Minute)
		if n := len(w.local.names("ConfigMap")); n != 500 {
			t.Errorf("%d copies of 500", n)
		}
		w.wantReady("maps", metav1.ConditionTrue, ReasonSynced)
		if l := &w.e.lanes; len(l.working)+len(l.waiting)+len(l.aside)+len(l.order)+len(l.called) > 0 {
			t.Errorf("lanes keep %+v", l)
		}
	})
}

// Thousands of copies that are refused are tried again at a rate for all of them.
func TestRetriesOfAllTogetherAreBounded(t *testing.T) {
	inWorld(t, func(w *world) {
		w.local.admits(func(o *unstructured.Unstructured) error { return errForbidden(o, "exceeded quota: q") })
		w.setRule(testRule("r"))
		const objects = 3000
		for i := range objects {
			w.peers[a].put(configMap(fmt.Sprintf("x%04d", i), "1"))
		}
		w.settle()
		time.Sleep(10 * time.Minute)
		if n, most := w.local.count("create"), objects*(1+retryFreely)+retryBurst+retryRate*(10*60+10); n > most {
			t.Errorf("%d creates in ten minutes, want at most %d", n, most)
		}
		w.local.admits(nil)
		time.Sleep(2 * time.Minute)
		if n := len(w.local.names("ConfigMap")); n != objects {
			t.Errorf("%d copies two minutes after they may be made", n)
		}
	})
}

// Lanes that have recovered do not wait behind one that still hangs, and a fast write in a lane does not let the
// others of it take all workers.
func TestLanes(t *testing.T) {
	now := time.Now()
	l := newLanes(8)
	key := func(namespace string, i int) Key {
		k := cm(fmt.Sprint(i))
		k.Namespace = namespace
		return k
	}
	enter := func(namespace string, i int) bool { return l.enter(key(namespace, i), now) }
	strike := func(namespace string, times int, at time.Time) {
		for range times {
			l.note(laneOf(key(namespace, 0)), 2*laneSlow, at)
		}
	}
	for i := range 8 {
		if !enter("hangs", i) {
			t.Fatal("nothing is known of it yet")
		}
	}
	strike("hangs", laneStrikes-1, now)
	if turn := l.leave(key("hangs", 0), 2*laneSlow, now); len(turn) > 0 {
		t.Fatalf("nobody waits, and yet %v", turn)
	}
	if enter("hangs", 8) || !enter("fine", 0) {
		t.Error("7 of 8 are held by it")
	}
	if enter("hangs", 8) {
		t.Error("it waits")
	}
	if turn := l.leave(key("fine", 0), time.Millisecond, now); len(turn) > 0 {
		t.Errorf("a fast write elsewhere calls %v", turn)
	}
	if turn := l.leave(key("hangs", 1), time.Millisecond, now); len(turn) > 0 {
		t.Errorf("a fast write calls %v while 6 are held", turn)
	}
	for i := 2; i < 4; i++ {
		l.leave(key("hangs", i), 2*laneSlow, now)
	}
	turn := l.leave(key("hangs", 4), 2*laneSlow, now)
	if len(turn) != 1 || turn[0] != key("hangs", 8) {
		t.Fatalf("its turn has %v", turn)
	}
	if turn := l.leave(key("hangs", 5), 0, now); len(turn) > 0 {
		t.Errorf("nobody else waits, and yet %v", turn)
	}
	for i := range 4 {
		enter("hangs", 20+i)
	}
	for i := range 3 {
		if enter("hangs", 30+i) {
			t.Errorf("%d enters", i)
		}
	}
	// Another one that is slow waits beside it, not behind it; and all of one that is slow no more go on.
	now = now.Add(laneMemory - time.Second)
	strike("hangs", 1, now)
	strike("other", laneStrikes, now.Add(-20*time.Second))
	for i := range 5 {
		if enter("other", i) {
			t.Errorf("other %d enters", i)
		}
	}
	now = now.Add(15 * time.Second)
	turn = l.leave(key("hangs", 6), 2*laneSlow, now)
	if len(turn) < 5 || turn[0] != key("other", 0) || turn[4] != key("other", 4) {
		t.Errorf("its turn has %v", turn)
	}
	// Three slow namespaces of a kind are a slow kind.
	l = newLanes(8)
	for i, ns := range []string{"a", "b", "c"} {
		enter(ns, i)
		strike(ns, laneStrikes-1, now)
		l.leave(key(ns, i), 2*laneSlow, now)
	}
	for i := range 4 {
		enter(fmt.Sprint("n", i), i)
	}
	if enter("another", 0) || !l.enter(serverKey(secret("s", "1")), now) {
		t.Error("its kind is slow, and no other")
	}
	for range laneFast - 1 {
		l.note(laneOf(key("a", 0)), time.Millisecond, now)
	}
	if !l.isSlow(laneOf(key("a", 0)), now) {
		t.Error("it has not been fast for long")
	}
	if l.note(laneOf(key("a", 0)), time.Millisecond, now); l.isSlow(laneOf(key("a", 0)), now) {
		t.Error("it has been fast for long enough")
	}
	strike("old", laneStrikes-1, now)
	now = now.Add(2 * laneMemory)
	if strike("old", 1, now); l.isSlow(laneOf(key("old", 0)), now) {
		t.Error("what was long ago counts")
	}
}
