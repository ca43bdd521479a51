// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/syncrules/engine/bounds"
	"github.com/roster-mesh/roster/syncrules/engine/problem"
)

// A source that has too much is not taken in, whether it says so in a list or bit by bit; its copies stay, and
// it is asked again when it may have come to its senses.
func TestTooMuchOfOnePeer(t *testing.T) {
	for what, grow := range map[string]func(w *world){
		"objects, live": func(w *world) {
			for i := range 20 {
				w.peers[a].put(configMap(fmt.Sprint("more", i), "1"))
			}
		},
		"bytes, live": func(w *world) { w.peers[a].put(configMap("big", strings.Repeat("v", 5000))) },
		"objects, in a list": func(w *world) {
			w.peers[a].cut(errUnavailable())
			for i := range 100 {
				w.peers[a].put(configMap(fmt.Sprint("more", i), "1"))
			}
			w.peers[a].cut(nil)
		},
		"bytes, in a list": func(w *world) {
			w.peers[a].cut(errUnavailable())
			w.peers[a].put(configMap("big", strings.Repeat("v", 5000)))
			w.peers[a].cut(nil)
		},
	} {
		t.Run(what, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.limit(bounds.Limits{Objects: 10, Bytes: 4000}, bounds.Limits{})
				w.setRule(testRule("r"))
				w.peers[a].put(configMap("x", "1"))
				w.peers[a].put(configMap("z", "1"))
				w.peers[b].put(configMap("y", "1"))
				w.settle()
				grow(w)
				w.peers[a].remove(cm("z"))
				w.settle()
				w.wantReady("r", metav1.ConditionFalse, problem.ReasonSourceTooLarge)
				if got := len(w.local.names("ConfigMap")); got > 11 {
					t.Errorf("%d copies were made of at most 10 objects", got-1)
				}
				w.wantValue(cm("x"), "1")
				w.wantValue(cm("z"), "1")
				w.wantHeld(a, 10, 4000)
				asked := w.peers[a].count("watch")
				time.Sleep(time.Minute)
				if n := w.peers[a].count("watch") - asked; n > 0 {
					t.Errorf("it was asked %d times in a minute", n)
				}
				w.peers[b].put(configMap("y", "2")) // others are of no concern
				w.settle()
				w.wantValue(cm("y"), "2")
				w.shrink(w.peers[a], "x")
				time.Sleep(10 * time.Minute)
				w.settle()
				w.wantReady("r", metav1.ConditionTrue, problem.ReasonSynced)
				w.wantGone(cm("z"))
				w.checkIndexes()
			})
		})
	}
}

// Several scopes of one peer share what one peer may have.
func TestTooMuchInAllOfOnePeer(t *testing.T) {
	inWorld(t, func(w *world) {
		w.limit(bounds.Limits{Objects: 10}, bounds.Limits{Objects: 12})
		for _, ns := range []string{"default", "team"} {
			r := testRule(ns)
			r.Spec.Rules[0].Matches[0].Namespaces[0] = ns
			w.setRule(r)
			for i := range 9 {
				obj := configMap(fmt.Sprint("x", i), "1")
				obj.SetNamespace(ns)
				w.peers[a].put(obj)
			}
		}
		w.settle()
		w.wantHeld(a, 12, 1<<20)
		if c, d := w.report("default").Conditions[0].Reason, w.report("team").Conditions[0].Reason; c != problem.ReasonSourceTooLarge && d != problem.ReasonSourceTooLarge {
			t.Errorf("the rules report %s and %s", c, d)
		}
		w.checkIndexes()
	})
}

// One peer has the memory that there is for whoever comes first, whether it says so in a list or bit by bit. It is refused what is
// beyond that, and gives way to another one that has its share; its copies stay as they are. Listed again, neither is too large.
func TestTooMuchInAllOfAllPeers(t *testing.T) {
	for what, inList := range map[string]bool{"in a list": true, "live": false} {
		t.Run(what, func(t *testing.T) {
			inWorld(t, func(w *world) {
				const most = 171 << 10
				w.kill()
				w.options = func(o *Options) { o.All = most }
				w.start()
				w.setRule(testRule("r"))
				put := func(peer, name string, n, size int) {
					for i := range n {
						w.peers[peer].put(configMap(fmt.Sprint(name, i), strings.Repeat("v", size)))
					}
				}
				put(a, "some-", 30, 950)
				w.settle()
				if inList {
					w.peers[a].cut(errUnavailable())
				}
				put(a, "more-", 30, 950)
				w.peers[a].cut(nil)
				w.settle()
				w.wantReady("r", metav1.ConditionFalse, problem.ReasonSourceTooLarge)
				if m := w.report("r").Conditions[0].Message; !strings.Contains(m, "of all clusters together") || !strings.Contains(m, "agentctl members --tree") {
					t.Errorf("it says %q", m)
				}
				held := func() [2]int64 { return [2]int64{w.e.views.memory.Of(a).Weight(), w.e.views.memory.Of(b).Weight()} }
				if n := held(); n[0] > most || n[0] < most/2 {
					t.Errorf("%v bytes are held of at most %d", n, most)
				}
				put(b, "good-", 12, 4870)
				w.settle()
				w.wantValue(cm("good-11"), strings.Repeat("v", 4870))
				w.peers[a].remove(cm("some-1"))
				w.settle()
				w.wantOwner(cm("some-0"), a, false)
				w.wantOwner(cm("some-1"), a, false)
				if n := held(); n[0] != 0 || n[1] > most/2 || n[1] < most/4 {
					t.Errorf("%v bytes are held of at most %d", n, most)
				}
				w.peers[b].cut(errUnavailable())
				w.settle()
				w.peers[b].cut(nil)
				put(b, "good-", 12, 1)
				w.settle()
				w.wantValue(cm("good-0"), "v")
				w.checkIndexes()
				put(a, "some-", 30, 1)
				put(a, "more-", 30, 1)
				w.peers[a].remove(cm("some-1"))
				time.Sleep(20 * time.Minute)
				w.settle()
				w.wantReady("r", metav1.ConditionTrue, problem.ReasonSynced)
				w.wantGone(cm("some-1"))
				w.wantValue(cm("some-0"), "v")
				w.checkIndexes()
			})
		})
	}
}

// A peer that is at its limit is not too large when it is listed again.
func TestListedAgainAtTheLimit(t *testing.T) {
	inWorld(t, func(w *world) {
		w.limit(bounds.Limits{Objects: 10}, bounds.Limits{Objects: 10})
		w.setRule(testRule("r"))
		for i := range 10 {
			w.peers[a].put(configMap(fmt.Sprint("x", i), "1"))
		}
		for range 5 {
			w.settle()
			w.wantReady("r", metav1.ConditionTrue, problem.ReasonSynced)
			w.peers[a].cut(errUnavailable())
			w.settle()
			w.peers[a].cut(nil)
		}
	})
}

// shrink removes all objects but one.
func (w *world) shrink(s *server, but string) {
	for _, name := range s.names("ConfigMap") {
		if name != but {
			s.remove(cm(name))
		}
	}
}

// limit starts the engine anew with limits.
func (w *world) limit(view, peer bounds.Limits) {
	w.kill()
	w.options = func(o *Options) { o.View, o.Peer = view, peer }
	w.start()
}

func (w *world) wantHeld(peer string, objects, bytes int64) {
	w.t.Helper()
	w.e.mu.Lock()
	defer w.e.mu.Unlock()
	if b := w.e.views.memory.Of(peer); b.Held.Exceeds(objects, bytes) || b.Coming.Objects.Load() > 0 {
		w.t.Errorf("%d objects and %d bytes are held, %d on the way", b.Held.Objects.Load(), b.Held.Bytes.Load(), b.Coming.Objects.Load())
	}
}

// What a cluster that has left took is forgotten.
func TestMemoryOfAClusterThatHasLeft(t *testing.T) {
	inWorld(t, func(w *world) {
		w.setRule(testRule("r"))
		w.peers[a].put(configMap("x", "1"))
		w.settle()
		of := [2]any{w.e.views.memory.Of(a), w.e.views.memory.Of(b)}
		w.e.RemovePeer(a)
		w.settle()
		w.setRule(testRule("next"))
		w.settle()
		if w.e.views.memory.Of(a) == of[0] || w.e.views.memory.Of(b) != of[1] {
			t.Error("what it took is known still, or what another one takes is not")
		}
	})
}

// A view may have to give way at the moment at which its watch begins.
func TestGivesWayAsTheWatchBegins(t *testing.T) {
	e, err := New(Options{LocalClusterID: here, Local: &silent{}, Target: newServer(), Cluster: func() *v1alpha1.Cluster { return nil }})
	if err != nil {
		t.Fatal(err)
	}
	for range 1000 {
		f := newFeed(e, &view{viewKey: viewKey{a, Scope{GVK: configMap("x", "1").GroupVersionKind()}}, usage: e.views.memory.Of(a)}, &peer{Peer: Peer{Source: &silent{}}}, nil)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			e.watchView(ctx, f)
		}()
		for !f.aborted() {
			f.abort(bounds.ErrTooMuch)
		}
		cancel()
		<-ended
		if !f.aborted() {
			t.Fatal("the attempt goes on")
		}
	}
}

// A list that breaks off over and over again is not too much of anything.
func TestListThatBreaksOff(t *testing.T) {
	e, err := New(Options{
		LocalClusterID: here, Local: &silent{}, Target: newServer(), Bounds: bounds.Bounds{View: bounds.Limits{Objects: 3}},
		Cluster: func() *v1alpha1.Cluster { return nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	stopped := 0
	stop := context.CancelFunc(func() { stopped++ })
	f := newFeed(e, &view{viewKey: viewKey{a, Scope{GVK: configMap("x", "1").GroupVersionKind()}}, usage: e.views.memory.Of(a)}, &peer{}, []*rule{newRule(testRule("r"), e.o.Consent, nil)})
	f.attempt.Store(&attempt{stop: stop})
	for range 10 {
		for _, name := range []string{"x", "y", "z"} {
			if !f.keep(configMap(name, "1")) {
				t.Fatalf("%s is too much", name)
			}
		}
	}
	if f.keep(configMap("more", "1")) || f.keep(configMap("x", "1")) || stopped != 1 {
		t.Errorf("the fourth object is not too much; it was stopped %d times", stopped)
	}
	f.release()
	if f.coming.Objects.Load() != 0 || f.v.usage.Coming.Bytes.Load() != 0 {
		t.Errorf("%d objects are on their way", f.coming.Objects.Load())
	}
}
