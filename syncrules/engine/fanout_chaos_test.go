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
	"github.com/roster-mesh/roster/syncrules/engine/problem"
)

// TestChaosOfNamespaces is TestChaos with a rule that copies into the namespaces that match, which come and go. In the end
// each of them has what the clusters have, and no other that is there has anything.
func TestChaosOfNamespaces(t *testing.T) {
	for seed := range uint64(60) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			inWorld(t, func(w *world) {
				r := rand.New(rand.NewPCG(seed, 2))
				w.setRule(spreading(testRule("r")))
				w.labelMany("n", 2, pulls())
				w.settle()
				for range 60 {
					w.shuffle(r)
					w.disturb(r, map[string]string{"x": "", "y": "", "z": ""})
				}
				for _, s := range w.peers {
					s.cut(nil)
				}
				w.local.cut(nil)
				for id, s := range w.peers {
					w.e.SetPeer(Peer{ClusterID: id, Source: s, FeaturesKnown: true})
				}
				time.Sleep(2 * time.Minute)
				w.settle()
				if c := w.report("r").Conditions; c[0].Reason == problem.ReasonDeletionGuard {
					confirmed := spreading(testRule("r"))
					confirmed.Annotations = map[string]string{syncrules.AnnotationConfirmDeletions: "100"}
					w.setRule(confirmed)
					w.settle()
				}
				w.checkSpread()
			})
		})
	}
}

// shuffle changes the labels of a namespace, deletes it with what is in it, or changes a copy in it.
func (w *world) shuffle(r *rand.Rand) {
	name := fmt.Sprintf("n%02d", r.IntN(3))
	k := in(name, []string{"x", "y", "z"}[r.IntN(3)])
	switch r.IntN(10) {
	case 0, 1:
		w.label(name, pulls())
	case 2, 3:
		w.label(name, map[string]string{"n": fmt.Sprint(r.IntN(3))})
	case 4:
		for _, n := range []string{"x", "y", "z"} {
			w.local.remove(in(name, n))
		}
		w.local.remove(namespaceNamed(name))
	case 5:
		w.local.remove(k)
	case 6:
		if w.local.find(k) != nil {
			w.local.edit(k, func(o *unstructured.Unstructured) { _ = unstructured.SetNestedField(o.Object, "tampered", "data", "v") })
		}
	}
}

func (w *world) checkSpread() {
	w.t.Helper()
	defer w.checkIndexes()
	for i := range 3 {
		namespace := fmt.Sprintf("n%02d", i)
		ns := w.local.find(namespaceNamed(namespace))
		if ns == nil {
			continue // this server takes what no other one does: a write that comes after the namespace is gone
		}
		for _, name := range []string{"x", "y", "z"} {
			there := w.peers[a].find(cm(name)) != nil || w.peers[b].find(cm(name)) != nil
			w.checkCopy(in(namespace, name), there && ns.GetLabels()["pull"] == "yes")
		}
	}
}
