// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/syncrules/engine/conflicts"
	"github.com/roster-mesh/roster/syncrules/engine/problem"
)

// All clusters get the same objects from the same place. They are read once, not once for each cluster that has
// them or from time to time; and one that goes here is replaced by a copy at once.
func TestSameObjectsEverywhere(t *testing.T) {
	const n, peers = 3 * conflicts.MaxObjectWatches, 8
	inWorld(t, func(w *world) {
		for i := range peers {
			id := fmt.Sprintf("%d%s", i, here[1:])
			w.peers[id] = newServer("default")
			w.e.SetPeer(Peer{ClusterID: id, Source: w.peers[id], FeaturesKnown: true})
		}
		everywhere := func(name, value string, pause time.Duration) {
			for _, s := range w.peers {
				s.put(configMap(name, value))
				time.Sleep(pause)
			}
		}
		for i := range n {
			name := fmt.Sprint("x", i)
			w.local.put(configMap(name, "1"))
			everywhere(name, "1", 0)
		}
		w.setRule(testRule("r"))
		w.settle()
		w.wantReady("r", metav1.ConditionTrue, problem.ReasonSynced)
		time.Sleep(10 * time.Minute)
		reads := w.local.count("read")
		if reads > n+n/4 {
			t.Errorf("%d reads of %d objects", reads, n)
		}
		if open := w.local.open(); open > conflicts.MaxObjectWatches+3 {
			t.Errorf("%d watches are open", open)
		}
		time.Sleep(time.Hour)
		if more := w.local.count("read") - reads; more > 0 {
			t.Errorf("%d reads while nothing changed", more)
		}
		// A change is rolled out, here among the others.
		everywhere("x7", "2", time.Second)
		w.local.put(configMap("x7", "2"))
		w.settle()
		if more := w.local.count("read") - reads; more > 4 {
			t.Errorf("%d reads for one change at %d clusters", more, len(w.peers))
		}
		w.wantReady("r", metav1.ConditionTrue, problem.ReasonSynced)
		w.local.put(configMap("x8", "mine"))
		w.settle()
		w.wantReady("r", metav1.ConditionFalse, problem.ReasonConflict)
		w.local.remove(cm("x8"))
		w.now()
		w.wantValue(cm("x8"), "1")
		if w.local.count("update")+w.local.count("delete") > 0 {
			t.Errorf("objects without marks were touched: %v", w.local.requests)
		}
		w.checkIndexes()
	})
}

// An edit of the rule makes another copy of the same object: what was found before does not count.
func TestVerdictsAreOfOneRule(t *testing.T) {
	inWorld(t, func(w *world) {
		w.local.put(configMap("x", "1"))
		w.peers[a].put(configMap("x", "1"))
		w.setRule(testRule("r"))
		w.settle()
		w.wantReady("r", metav1.ConditionTrue, problem.ReasonSynced)
		r := testRule("r")
		r.Spec.Rules[0].Mutations.Labels = &v1alpha1.LabelMutations{Add: map[string]string{"copied": "yes"}}
		w.setRule(r)
		w.settle()
		w.wantReady("r", metav1.ConditionFalse, problem.ReasonConflict)
	})
}

// One member's rules about many namespaces, whose names come first, take from no other the watches of what is in the way of copies: what
// goes away here is replaced by a copy at once.
func TestManyNamespacesLeaveConflictWatches(t *testing.T) {
	const n = 2 * conflicts.MaxObjectWatches
	inWorld(t, func(w *world) {
		namespaces := make([]string, conflicts.MaxWatches+1)
		for i := range namespaces {
			namespaces[i] = fmt.Sprintf("a%03d", i)
		}
		w.setRule(by(a, 0, inNamespaces(testRule("wide-0"), namespaces[:conflicts.MaxWatches]...)))
		w.setRule(by(a, 1, inNamespaces(testRule("wide-1"), namespaces[conflicts.MaxWatches:]...)))
		w.setRule(by(b, 2, testRule("honest")))
		for i := range n {
			name := fmt.Sprint("x", i)
			w.local.put(configMap(name, "mine"))
			w.peers[b].put(configMap(name, "1"))
		}
		w.settle()
		w.wantReady("honest", metav1.ConditionFalse, problem.ReasonConflict)
		if got := w.e.conflicts.WatchesLocked(); got != conflicts.MaxWatches {
			t.Errorf("%d watches of what is in the way, want %d", got, conflicts.MaxWatches)
		}
		for i := range n {
			w.local.remove(cm(fmt.Sprint("x", i)))
		}
		w.now()
		for i := range n {
			w.wantValue(cm(fmt.Sprint("x", i)), "1")
		}
	})
}
