// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/roster-mesh/roster/syncrules"
)

// TestChaos does random things to sources, copies, connections and the process, ends every fault, and then
// wants: copies as their owners have them, nothing without an owner touched, and no orphans, since no rule was
// ever edited. A case is replayed by its seed.
func TestChaos(t *testing.T) {
	for seed := range uint64(60) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			inWorld(t, func(w *world) {
				r := rand.New(rand.NewPCG(seed, 0))
				w.setRule(testRule("r"))
				w.settle()
				mine := map[string]string{} // objects of this cluster
				for range 40 {
					w.disturb(r, mine)
				}
				for _, s := range w.peers {
					s.cut(nil)
				}
				w.local.cut(nil)
				time.Sleep(2 * time.Minute)
				w.settle()
				w.checkChaos(mine)
			})
		})
	}
}

func (w *world) disturb(r *rand.Rand, mine map[string]string) {
	name := []string{"x", "y", "z"}[r.IntN(3)]
	id := []string{a, b}[r.IntN(2)]
	peer, value := w.peers[id], fmt.Sprint(r.IntN(3))
	have := w.local.find(cm(name))
	switch r.IntN(12) {
	case 0, 1, 2:
		peer.put(configMap(name, value))
	case 3, 4:
		peer.remove(cm(name))
	case 5:
		if have != nil && syncrules.IsCopy(have) {
			_ = unstructured.SetNestedField(have.Object, "tampered", "data", "v")
			w.local.put(have)
		}
	case 6:
		if have != nil && syncrules.IsCopy(have) {
			w.local.remove(cm(name))
		}
	case 7:
		if have == nil {
			w.local.put(configMap(name, "mine"))
			mine[name] = "mine"
		} else if mine[name] != "" {
			w.local.remove(cm(name))
			delete(mine, name)
		}
	case 8:
		peer.cut([]error{errUnavailable(), nil}[r.IntN(2)])
	case 9:
		w.local.cut([]error{errUnavailable(), nil}[r.IntN(2)])
	case 10:
		w.kill()
		w.start()
	case 11:
		if r.IntN(2) == 0 {
			w.e.SetPeer(Peer{ClusterID: id, Why: "no connection"})
		} else {
			w.e.SetPeer(Peer{ClusterID: id, Source: peer, FeaturesKnown: true})
		}
	}
	time.Sleep(time.Duration(r.IntN(1500)) * time.Millisecond)
}

func (w *world) checkChaos(mine map[string]string) {
	w.t.Helper()
	defer w.checkIndexes()
	for id, s := range w.peers {
		w.e.SetPeer(Peer{ClusterID: id, Source: s, FeaturesKnown: true})
	}
	w.settle()
	for _, name := range []string{"x", "y", "z"} {
		have := w.local.find(cm(name))
		switch {
		case mine[name] != "":
			w.wantValue(cm(name), mine[name])
		case have == nil:
			for id, s := range w.peers {
				if s.find(cm(name)) != nil {
					w.t.Errorf("%s is in %s and not here", name, id)
				}
			}
		default:
			owner := w.peers[syncrules.Owner(have)].find(cm(name))
			if owner == nil || syncrules.Orphaned(have) {
				w.t.Errorf("%s: its owner has %v, the copy is %v", name, owner, have.Object)
				continue
			}
			value, _, _ := unstructured.NestedString(owner.Object, "data", "v")
			w.wantValue(cm(name), value)
		}
	}
}
