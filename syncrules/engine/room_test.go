// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/syncrules/engine/copies"
	"github.com/roster-mesh/roster/syncrules/engine/problem"
)

// roomy is an engine in which copies have so much room, and a admitted whoever is named after it.
func (w *world) roomy(most int64) {
	w.kill()
	w.options = func(o *Options) {
		o.Copies, o.Workers = most, 1 // each of several could write one more than there is room for
		o.Parent = func(id string) string {
			if strings.HasPrefix(id, a+"-") {
				return a
			}
			return here
		}
	}
	w.start()
}

// takes is how much the copies here take.
func (w *world) takes() (sum int64) {
	w.e.mu.Lock()
	defer w.e.mu.Unlock()
	for _, c := range w.e.local.copies.All(cm("x").GroupKind) {
		sum += c.Weight()
	}
	return sum
}

// A member has its rule leave copies behind, as it deletes their sources, and the clusters that it invents leave theirs as they leave the
// group. All of it together has half of the room, also after restarts. The copies of another member are made and changed meanwhile.
func TestCopiesThatAreLeftBehindHaveHalfOfTheRoom(t *testing.T) {
	inWorld(t, func(w *world) {
		const most = 256 << 10
		w.roomy(most)
		rule := testRule("r")
		rule.Spec.DeletionPolicy = v1alpha1.DeletionOrphan
		w.setRule(rule)
		w.peers[b].put(configMap("honest", "1"))
		w.settle()
		for round := range 8 {
			id := a
			if round%2 == 1 {
				id = fmt.Sprint(a, "-", round)
				w.peers[id] = newServer("default", "team")
				w.e.SetPeer(Peer{ClusterID: id, Source: w.peers[id], FeaturesKnown: true})
			}
			for i := range 15 {
				w.peers[id].put(configMap(fmt.Sprintf("bad-%d-%d", round, i), strings.Repeat("v", 2<<10)))
			}
			w.settle()
			if id == a {
				for i := range 15 {
					w.peers[id].remove(cm(fmt.Sprintf("bad-%d-%d", round, i)))
					w.settle()
				}
			} else {
				w.e.RemovePeer(id)
				delete(w.peers, id)
			}
			if round == 4 {
				w.kill()
				w.start()
			}
			w.settle()
		}
		if n := w.takes(); n > most/2+8<<10 || n < most/2-8<<10 {
			t.Errorf("copies take %d of %d", n, most)
		}
		w.peers[b].put(configMap("honest", strings.Repeat("2", 4<<10)))
		for i := range 10 {
			w.peers[b].put(configMap(fmt.Sprint("good-", i), strings.Repeat("v", 2<<10)))
		}
		w.settle()
		w.wantValue(cm("honest"), strings.Repeat("2", 4<<10))
		for i := range 10 {
			w.wantValue(cm(fmt.Sprint("good-", i)), strings.Repeat("v", 2<<10))
		}
		w.checkIndexes()
	})
}

// Where rules and their namespaces change, too, what is left behind in those before keeps its room: it is watched as long as it takes much.
func TestCopiesLeftInManyNamespaces(t *testing.T) {
	inWorld(t, func(w *world) {
		const most = 256 << 10
		w.roomy(most)
		for round := range 6 {
			ns := fmt.Sprint("ns-", round)
			w.local.addNamespace(ns)
			rule := inNamespaces(testRule("r"), ns)
			rule.Spec.DeletionPolicy, rule.Spec.RuleDeletionPolicy = v1alpha1.DeletionOrphan, v1alpha1.DeletionOrphan
			w.setRule(rule)
			for i := range 15 {
				obj := configMap(fmt.Sprintf("bad-%d-%d", round, i), strings.Repeat("v", 2<<10))
				obj.SetNamespace(ns)
				w.peers[a].put(obj)
			}
			w.settle()
			for i := range 15 {
				obj := configMap(fmt.Sprintf("bad-%d-%d", round, i), "")
				obj.SetNamespace(ns)
				w.peers[a].remove(serverKey(obj))
				w.settle()
			}
			if round == 3 {
				w.kill()
				w.start()
			}
		}
		w.setRule(testRule("r", "none"))
		w.settle()
		here := int64(0)
		for _, obj := range w.local.objects {
			if c := copies.New(obj); c.Owner != "" {
				here += c.Weight()
			}
		}
		if here > most/2+8<<10 || here < most/2-8<<10 || w.takes() != here {
			t.Errorf("copies take %d of %d, and %d are counted", here, most, w.takes())
		}
	})
}

// A copy for which there is no room is not made, and the rule says why and what to do. One that is there stays as it is where it would become
// much larger, and is changed where it does not. When there is room again, what is missing comes.
func TestNoRoomForCopies(t *testing.T) {
	inWorld(t, func(w *world) {
		w.roomy(32 << 10)
		w.setRule(testRule("r"))
		for i := range 8 {
			w.peers[a].put(configMap(fmt.Sprint("x", i), strings.Repeat("1", 3<<10)))
		}
		w.settle()
		w.wantReady("r", metav1.ConditionFalse, problem.ReasonTooManyCopies)
		m := w.report("r").Conditions[0].Message
		for _, want := range []string{"of copies, and those that rules of cluster " + here + " make of objects of cluster " + a, "agentctl orphans list", "raise the memory limit"} {
			if !strings.Contains(m, want) {
				t.Errorf("it says %q", m)
			}
		}
		made := 0
		for i := range 8 {
			if w.local.find(cm(fmt.Sprint("x", i))) != nil {
				made++
				w.peers[a].put(configMap(fmt.Sprint("x", i), strings.Repeat("2", 3<<10)))
				w.settle()
				w.wantValue(cm(fmt.Sprint("x", i)), strings.Repeat("2", 3<<10))
				w.peers[a].put(configMap(fmt.Sprint("x", i), strings.Repeat("2", 3<<10)+"longer"))
				w.settle()
				w.wantValue(cm(fmt.Sprint("x", i)), strings.Repeat("2", 3<<10)+"longer")
				w.peers[a].put(configMap(fmt.Sprint("x", i), strings.Repeat("3", 16<<10)))
				w.settle()
				w.wantValue(cm(fmt.Sprint("x", i)), strings.Repeat("2", 3<<10)+"longer")
			}
		}
		if made < 3 || made > 5 {
			t.Errorf("%d copies were made", made)
		}
		for i := range 8 {
			w.peers[a].put(configMap(fmt.Sprint("x", i), "4"))
		}
		time.Sleep(11 * time.Minute) // they are tried again
		w.settle()
		w.wantReady("r", metav1.ConditionTrue, problem.ReasonSynced)
		for i := range 8 {
			w.wantValue(cm(fmt.Sprint("x", i)), "4")
		}
		w.checkIndexes()
	})
}

// A copy goes over to another cluster that has the same object also where that one's copies have no room: nothing becomes more.
func TestCopyGoesOverWithoutRoom(t *testing.T) {
	inWorld(t, func(w *world) {
		w.roomy(32 << 10)
		w.setRule(testRule("r"))
		w.peers[a].put(configMap("both", "1"))
		w.settle()
		w.peers[b].put(configMap("both", "2"))
		for i := range 12 {
			w.peers[b].put(configMap(fmt.Sprint("x", i), strings.Repeat("1", 3<<10)))
		}
		w.settle()
		w.wantValue(cm("both"), "1")
		w.wantReady("r", metav1.ConditionFalse, problem.ReasonTooManyCopies)
		w.peers[a].remove(cm("both"))
		w.settle()
		w.wantValue(cm("both"), "2")
		w.wantOwner(cm("both"), b, false)
	})
}

// A copy counts for the author who has room for it, not for one whose rule asks for the same: else a member whose rule joins an old one of somebody else's
// would use up that one's room, and have all of it.
func TestJointCopyCountsForWhoHasRoom(t *testing.T) {
	inWorld(t, func(w *world) {
		const most = 512 << 10
		w.roomy(most)
		w.setRule(by(b, 0, testRule("honest")))
		w.setRule(by(a, 10, testRule("bad")))
		for i := range 200 {
			w.peers[a].put(configMap(fmt.Sprint("bad-", i), strings.Repeat("v", 2<<10)))
		}
		w.settle()
		if n := w.takes(); n > most*4/5 || n < most/2 {
			t.Errorf("copies of one cluster's objects take %d of %d", n, most)
		}
		w.peers[b].put(configMap("good", strings.Repeat("v", 2<<10)))
		w.settle()
		w.wantValue(cm("good"), strings.Repeat("v", 2<<10))
	})
}
