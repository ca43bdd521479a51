// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roster-mesh/roster/syncrules/engine/problem"
)

// Thousands of changes of one cluster are due, and hold up no change of another one; nor do they where the API server is slow.
func TestChangesOfOneClusterHoldUpNoOthers(t *testing.T) {
	for name, c := range map[string]struct{ late, within time.Duration }{
		"fast": {100 * time.Millisecond, time.Second},
		"slow": {1100 * time.Millisecond, 5 * time.Second}, // for half of the workers
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				const many = 3000
				w.setRule(testRule("r"))
				w.peers[b].put(configMap("honest", "1"))
				w.settle()
				w.local.late = c.late
				for i := range many {
					w.peers[a].put(configMap(fmt.Sprint("x", i), "1"))
				}
				time.Sleep(10 * time.Second)
				w.wantSoon("honest", c.within, many)
			})
		})
	}
}

// A copy whose turn it is among those that the API server is slow to take has no second turn among all others, where it would wait and have the next ones wait.
func TestSlowCopiesHaveOneTurn(t *testing.T) {
	inWorld(t, func(w *world) {
		w.setRule(testRule("r"))
		secrets := testRule("secrets")
		secrets.Spec.GVK.Kind = "Secret"
		w.setRule(secrets)
		w.local.late, w.local.lateKinds = 100*time.Millisecond, map[string]time.Duration{"ConfigMap": 1100 * time.Millisecond}
		for i := range 1000 {
			w.peers[a].put(configMap(fmt.Sprint("x", i), "1"))
		}
		time.Sleep(10 * time.Second)
		const honest = 40
		for i := range honest {
			w.peers[b].put(configMap(fmt.Sprint("honest-", i), "1"))
		}
		for i := range 5000 { // a minute
			w.peers[a].put(secret(fmt.Sprint("x", i), "1"))
		}
		time.Sleep(honest * 1100 * time.Millisecond * 2 / 8 * 3 / 2) // they have each other of the turns of eight workers
		for i := range honest {
			w.wantValue(cm(fmt.Sprint("honest-", i)), "1")
		}
	})
}

// Nor do those of hundreds that one cluster has invented, each of which has a few.
func TestChangesOfInventionsHoldUpNoOthers(t *testing.T) {
	const inventions, each = 400, 10
	inWorld(t, func(w *world) {
		w.kill()
		w.options = func(o *Options) {
			o.Parent = func(id string) string {
				if strings.HasPrefix(id, "0-invented") {
					return a
				}
				return here
			}
		}
		w.start()
		w.setRule(testRule("r"))
		w.peers[b].put(configMap("honest", "1"))
		w.settle()
		w.local.late = 100 * time.Millisecond
		for i := range inventions {
			s := newServer("default")
			s.put(configMap("honest", "stolen")) // whose copy is here has it
			for n := range each {
				s.put(configMap(fmt.Sprintf("x%d-%d", i, n), "1"))
			}
			w.peers[fmt.Sprint("0-invented-", i)] = s
			w.e.SetPeer(Peer{ClusterID: fmt.Sprint("0-invented-", i), Source: s, FeaturesKnown: true})
		}
		time.Sleep(5 * time.Second)
		w.wantSoon("honest", 500*time.Millisecond, inventions*each)
	})
}

// Nor do those that the rules of one author make of what another one has, also where they make some together with others.
func TestRulesOfOneAuthorHoldUpNoOthers(t *testing.T) {
	inWorld(t, func(w *world) {
		const objects, rules = 100, 30
		w.setRule(by(b, 1, testRule("home")))
		w.peers[b].put(configMap("honest", "1"))
		for i := range objects {
			w.peers[b].put(configMap(fmt.Sprint("x", i), "1"))
		}
		w.settle()
		w.local.late = 100 * time.Millisecond
		w.setRule(by(a, 0, testRule("bad-home"))) // it is older
		for i := range rules {
			w.setRule(by(a, 0, moving(testRule(fmt.Sprint("bad-", i)), "name", fmt.Sprintf("bad-%d-{{ .Object.GetName }}", i))))
		}
		time.Sleep(time.Second)
		w.wantSoon("honest", time.Second, objects*rules)
	})
}

// Nor does who changes thousands of objects of the same names, which are not copied: what that has looked at again waits in a line of who changed it, unless it changes
// in the cluster that has the copy.
func TestRivalsHoldUpNoOthers(t *testing.T) {
	inWorld(t, func(w *world) {
		const objects, many = 2000, 3000
		w.setRule(testRule("r"))
		w.peers[b].put(configMap("honest", "1"))
		for i := range objects {
			w.peers[b].put(configMap(fmt.Sprint("x", i), "1"))
		}
		w.settle()
		w.local.late = 100 * time.Millisecond
		for i := range many {
			w.peers[a].put(configMap(fmt.Sprint("y", i), "1"))
		}
		for i := range objects {
			w.peers[a].put(configMap(fmt.Sprint("x", i), "2"))
		}
		time.Sleep(time.Second)
		w.peers[b].put(configMap(fmt.Sprint("x", objects-1), "soon")) // it waits already, because of the other one
		time.Sleep(500 * time.Millisecond)
		w.wantValue(cm(fmt.Sprint("x", objects-1)), "soon")
		w.wantSoon("honest", 500*time.Millisecond, objects+many)
	})
}

// A copy that rules of two authors make, whose quotas are both used up, waits for one of them as others do, however often it changes.
func TestJointCopiesWaitInOneLine(t *testing.T) {
	inWorld(t, func(w *world) {
		withQuota(w)
		const objects = 60
		names := func(prefix string) (names []string) {
			for i := range objects {
				names = append(names, fmt.Sprint(prefix, i))
			}
			return append(names, "joint")
		}
		w.setRule(by(a, 0, testRule("older", names("a")...)))
		w.setRule(by(b, 1, testRule("home", names("b")...)))
		last, seen := 0, 0          // the version of the copy, and how many there were
		for n := 1; n <= 200; n++ { // ten minutes
			for i := range objects {
				w.peers[b].put(configMap(fmt.Sprint("a", i), fmt.Sprint(n)))
				w.peers[b].put(configMap(fmt.Sprint("b", i), fmt.Sprint(n)))
			}
			w.peers[b].put(configMap("joint", fmt.Sprint(n)))
			time.Sleep(3 * time.Second)
			if o := w.local.find(cm("joint")); o != nil {
				v, err := strconv.Atoi(o.Object["data"].(map[string]any)["v"].(string))
				if err != nil {
					t.Error(err)
				}
				if v != last {
					last, seen = v, seen+1
				}
			}
			if n-last > 20 {
				t.Errorf("it is %d s old", 3*(n-last))
				return
			}
		}
		if seen > 100 {
			t.Errorf("it was written %d times: it does not wait", seen)
		}
	})
}

// They use up no more of what may be written because of that one either.
func TestRulesOfOneAuthorAreChargedToIt(t *testing.T) {
	inWorld(t, func(w *world) {
		withQuota(w)
		const objects = 50
		w.setRule(by(b, 1, testRule("home")))
		for i := range objects {
			w.peers[b].put(configMap(fmt.Sprint("x", i), "1"))
		}
		w.settle()
		w.setRule(by(a, 0, testRule("bad-home")))
		for i := range 10 {
			w.setRule(by(a, 0, moving(testRule(fmt.Sprint("bad-", i)), "name", fmt.Sprintf("bad-%d-{{ .Object.GetName }}", i))))
		}
		w.settle()
		w.wantReady("bad-9", metav1.ConditionFalse, problem.ReasonSlowed)
		if m := w.report("bad-9").Conditions[0].Message; !strings.Contains(m, "because of rules of cluster "+a+" with objects of cluster "+b) {
			t.Errorf("the rule says %q", m)
		}
		for i := range 5 {
			value := fmt.Sprint("soon-", i)
			w.peers[b].put(configMap("x1", value))
			time.Sleep(2 * time.Second)
			w.wantValue(cm("x1"), value)
		}
		w.wantReady("home", metav1.ConditionTrue, problem.ReasonSynced)
		time.Sleep(10 * time.Minute)
		w.wantReady("bad-9", metav1.ConditionTrue, problem.ReasonSynced)
		w.wantValue(cm("bad-9-x1"), "soon-4")
	})
}

// wantSoon changes an object of b again and again while so many others are due, and wants its copy to follow within a moment.
func (w *world) wantSoon(name string, within time.Duration, many int) {
	w.t.Helper()
	for i := range 5 {
		value := fmt.Sprint("soon-", i)
		w.peers[b].put(configMap(name, value))
		time.Sleep(within)
		w.wantValue(cm(name), value)
	}
	if n := len(w.local.names("ConfigMap")); n >= many {
		w.t.Errorf("all of %d are there already", many)
	}
	time.Sleep(10 * time.Minute)
	if n := len(w.local.names("ConfigMap")); n < many {
		w.t.Errorf("%d copies of %d", n, many)
	}
	w.e.mu.Lock()
	defer w.e.mu.Unlock()
	if !w.e.outcomes.lanes.Empty() || w.e.queue.Len() > 0 {
		w.t.Errorf("%d wait, and lanes keep %+v", w.e.queue.Len(), w.e.outcomes.lanes)
	}
}
