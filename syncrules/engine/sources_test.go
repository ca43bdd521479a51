// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/syncrules/engine/problem"
)

// A rule that changes all the time is reported every two seconds, and less often if it has many sources: each has a place in its status.
func TestReportsOfManySources(t *testing.T) {
	for others, most := range map[int]int{0: 13, 598: 5} {
		inWorld(t, func(w *world) {
			w.setRule(testRule("r"))
			for n := range others {
				w.e.SetPeer(Peer{ClusterID: fmt.Sprintf("other-%03d", n), Source: newServer("default", "team"), FeaturesKnown: true})
			}
			time.Sleep(time.Minute)
			before := w.sentReports()
			for n := range 240 {
				w.peers[a].put(configMap(fmt.Sprintf("x%03d", n), "1"))
				time.Sleep(time.Second / 10)
			}
			if sent := w.sentReports() - before; sent > most || sent < most/2 {
				t.Errorf("%d reports of %d sources in 24 s, want at most %d", sent, others+2, most)
			}
			time.Sleep(time.Minute)
			if got := w.report("r"); got.Synced != 240 || len(got.Sources) != others+2 {
				t.Errorf("in the end %d synced of %d sources", got.Synced, len(got.Sources))
			}
		})
	}
}

// Of thousands of clusters that are not reached, which a member can invent, a status lists a few, and all that are.
func TestStatusListsFewThatAreAway(t *testing.T) {
	inWorld(t, func(w *world) {
		w.setRule(testRule("r"))
		for n := range 1500 {
			w.e.SetPeer(Peer{ClusterID: fmt.Sprintf("0-invented-%04d", n), Why: "not met yet"})
		}
		time.Sleep(time.Minute)
		got, watched := w.report("r"), 0
		for _, s := range got.Sources {
			if s.Watching {
				watched++
			}
		}
		if len(got.Sources) != v1alpha1.MaxAwaySources+watched || watched != 2 {
			t.Errorf("%d sources are listed, %d of them watched", len(got.Sources), watched)
		}
		w.wantReady("r", metav1.ConditionFalse, problem.ReasonSourceUnreachable)
		w.peers[a].cut(fmt.Errorf("%w: no", ErrForbidden))
		time.Sleep(time.Minute)
		w.wantReady("r", metav1.ConditionFalse, problem.ReasonSourcePermission) // which the others do not hide
	})
}

// Of a cluster that was never reached nothing is held for each rule: there may be thousands that somebody invents. Once it is reached,
// it is read.
func TestNothingIsHeldOfClustersThatAreNotReached(t *testing.T) {
	inWorld(t, func(w *world) {
		w.setRule(testRule("r"))
		w.e.SetPeer(Peer{ClusterID: "invented", Why: "not met yet"})
		w.settle()
		w.e.mu.Lock()
		held := w.e.views.byPeer["invented"]
		w.e.mu.Unlock()
		if held != nil {
			t.Errorf("views %v", held)
		}
		late := newServer("default", "team")
		late.put(configMap("x", "1"))
		w.e.SetPeer(Peer{ClusterID: "invented", Source: late, FeaturesKnown: true})
		w.settle()
		w.wantValue(cm("x"), "1")
	})
}
