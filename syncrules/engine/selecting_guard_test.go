// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roster-mesh/roster/syncrules"
	"github.com/roster-mesh/roster/syncrules/engine/problem"
)

// A selection that ends and begins again is like an outage for the deletion guard: what is lacking then counts together, in all namespaces.
func TestGuardHoldsAfterASelectionEnded(t *testing.T) {
	inWorld(t, func(w *world) {
		w.placesRoom(1<<20, 1<<30)
		namespaces := []string{"n0", "n1", "n2", "n3", "n4"}
		put := func(ns, name string) {
			o := configMap(name, "1")
			o.SetNamespace(ns)
			w.peers[a].put(o)
		}
		for _, ns := range namespaces {
			w.peers[a].addNamespace(ns)
			w.local.addNamespace(ns)
			for i := range 6 {
				put(ns, fmt.Sprint("x", i))
			}
		}
		w.setRule(by(b, 1, inNamespaces(testRule("r"), namespaces...)))
		w.settle()
		w.e.mu.Lock()
		w.e.countComingLocked(a, "r", 2<<20)
		w.e.countComingLocked(a, "r", -2<<20)
		w.e.mu.Unlock()
		w.settle()
		w.wantReady("r", metav1.ConditionFalse, problem.ReasonSourceTooLarge)
		for _, ns := range namespaces {
			for i := range 6 {
				w.peers[a].remove(in(ns, fmt.Sprint("x", i)))
			}
		}
		w.settle()
		time.Sleep(time.Hour)
		w.settle()
		w.wantReady("r", metav1.ConditionFalse, problem.ReasonDeletionGuard)
		for _, ns := range namespaces {
			for i := range 6 {
				if w.local.find(in(ns, fmt.Sprint("x", i))) == nil {
					t.Fatalf("the copy of x%d in %s is deleted", i, ns)
				}
			}
		}
	})
}

// What an ended rule selects still is no deletion for it, whatever becomes of the object for other rules.
func TestEndedRuleProvesNothing(t *testing.T) {
	inWorld(t, func(w *world) {
		w.placesRoom(1<<20, 1<<30)
		for i := range 6 {
			o := configMap(fmt.Sprint("x", i), "1")
			o.SetLabels(map[string]string{"of": "narrow"})
			w.peers[b].put(o)
		}
		narrow := testRule("narrow")
		narrow.Spec.Rules[0].Matches[0].Labels = []metav1.LabelSelector{{MatchLabels: map[string]string{"of": "narrow"}}}
		w.setRule(by(a, 1, narrow))
		w.setRule(by(b, 1, testRule("wide")))
		w.settle()
		w.e.mu.Lock()
		w.e.countComingLocked(b, "wide", 2<<20)
		w.e.countComingLocked(b, "wide", -2<<20)
		w.e.mu.Unlock()
		w.settle()
		for i := range 6 { // the narrow one selects them no more, the wide one does
			w.peers[b].put(configMap(fmt.Sprint("x", i), "1"))
		}
		w.settle()
		w.peers[b].cut(errUnavailable())
		w.settle()
		time.Sleep(time.Hour)
		w.settle()
		for i := range 6 {
			w.wantValue(cm(fmt.Sprint("x", i)), "1")
		}
		w.peers[b].cut(nil)
		time.Sleep(time.Hour)
		w.settle()
		for i := range 6 {
			w.wantValue(cm(fmt.Sprint("x", i)), "1")
			if made := syncrules.MadeBy(w.local.find(cm(fmt.Sprint("x", i)))); !slices.Equal(made, []string{"wide"}) {
				t.Errorf("x%d is made by %v", i, made)
			}
		}
		w.wantSelections()
	})
}
