// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/syncrules"
	"github.com/roster-mesh/roster/syncrules/engine/problem"
	"github.com/roster-mesh/roster/syncrules/engine/rights"
	"github.com/roster-mesh/roster/syncrules/engine/tally"
)

func (w *world) eventsOf(reason string) []tally.RuleEvent {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(w.events), func(e tally.RuleEvent) bool { return e.Reason != reason })
}

func (w *world) sentReports() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.sent
}

func (w *world) condition(rule, kind string) metav1.Condition {
	for _, c := range w.report(rule).Conditions {
		if c.Type == kind {
			return c
		}
	}
	return metav1.Condition{}
}

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

// Of thousands of clusters that are not reached, which a member can invent, a status lists a hundred, and all that are.
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
		if len(got.Sources) != 100+watched || watched != 2 {
			t.Errorf("%d sources are listed, %d of them watched", len(got.Sources), watched)
		}
		w.wantReady("r", metav1.ConditionFalse, ReasonSourceUnreachable)
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

// Thousands of copies make a handful of events, which say how many they were.
func TestEventsAreSummedUp(t *testing.T) {
	inWorld(t, func(w *world) {
		w.setRule(testRule("r"))
		for i := range 500 {
			w.peers[a].put(configMap(fmt.Sprintf("x%03d", i), "1"))
		}
		missing := configMap("y", "1")
		missing.SetNamespace("late")
		w.peers[a].addNamespace("late")
		w.peers[a].put(missing)
		late, _ := lateRule(false)
		late.Name = "late"
		w.setRule(late)
		time.Sleep(5 * time.Minute)
		done := w.eventsOf(tally.EventReconciled)
		if len(done) == 0 || len(done) > 2 || !strings.Contains(done[0].Message, "500 objects") || done[0].Warning || done[0].Rule != "r" {
			t.Errorf("events %+v", done)
		}
		if waiting := w.eventsOf(tally.EventMissingNamespace); len(waiting) != 1 || !strings.Contains(waiting[0].Message, "ConfigMap late/y") || !waiting[0].Warning {
			t.Errorf("events %+v: one that lasts is told once", waiting)
		}
		w.local.put(configMap("mine", "1"))
		w.peers[a].put(configMap("mine", "2"))
		w.settle()
		if not := w.eventsOf(tally.EventNotReconciled); len(not) != 1 || !strings.Contains(not[0].Message, "ConfigMap default/mine") {
			t.Errorf("events %+v", not)
		}
		w.settle()
		w.mu.Lock()
		n := len(w.events)
		w.mu.Unlock()
		time.Sleep(time.Hour)
		w.mu.Lock()
		defer w.mu.Unlock()
		if len(w.events) != n {
			t.Errorf("events without anything happening: %+v", w.events[n:])
		}
	})
}

func TestOrphansAreListedAndAdopted(t *testing.T) {
	inWorld(t, func(w *world) {
		w.setRule(testRule("r"))
		for i := range 12 {
			w.peers[a].put(configMap(fmt.Sprintf("x%02d", i), "1"))
		}
		w.settle()
		if c := w.condition("r", ConditionOrphans); c.Type != "" {
			t.Errorf("there are no orphans, and yet %+v", c)
		}
		w.setRule(testRule("r", "x00"))
		w.settle()
		c := w.condition("r", ConditionOrphans)
		if c.Status != metav1.ConditionTrue || !strings.HasPrefix(c.Message, "11 copies") || !strings.Contains(c.Message, "ConfigMap default/x01, ConfigMap default/x02") || !strings.Contains(c.Message, "and 3 more") {
			t.Errorf("condition %+v", c)
		}
		if e := w.eventsOf(tally.EventOrphaned); len(e) != 1 || e[0].Rule != "r" || !strings.Contains(e[0].Message, "11 objects") {
			t.Errorf("events %+v", e)
		}
		w.kill()
		w.start()
		if c := w.condition("r", ConditionOrphans); !strings.HasPrefix(c.Message, "11 copies") {
			t.Errorf("after a restart: %+v", c)
		}
		w.setRule(testRule("r"))
		w.settle()
		w.wantOwner(cm("x05"), a, false)
		if c := w.condition("r", ConditionOrphans); c.Type != "" {
			t.Errorf("adopted again, and yet %+v", c)
		}
	})
}

// TestParityC04 of the engine: what a deleted rule leaves behind is told.
func TestOrphansOfADeletedRuleAreTold(t *testing.T) {
	inWorld(t, func(w *world) {
		w.setRule(testRule("r"))
		for i := range 12 {
			w.peers[a].put(configMap(fmt.Sprintf("x%02d", i), "1"))
		}
		w.settle()
		w.e.DeleteRule("r")
		w.settle()
		w.wantOwner(cm("x05"), a, true)
		if e := w.eventsOf(tally.EventOrphaned); len(e) != 1 || e[0].Rule != "r" || !strings.Contains(e[0].Message, "12 objects") {
			t.Errorf("events %+v", e)
		}
	})
}

// Changes that alter nothing but the lag are no reason to report.
func TestLagAloneIsNotReported(t *testing.T) {
	inWorld(t, func(w *world) {
		w.setRule(testRule("r"))
		w.peers[a].put(configMap("x", "0"))
		w.settle()
		if r := w.report("r"); len(r.Sources) != 2 || r.Sources[0].Synced != 1 || r.Sources[1].Matched != 0 {
			t.Errorf("sources %+v", r.Sources)
		}
		sent := w.sentReports()
		for i := range 20 {
			w.peers[a].put(configMap("x", fmt.Sprint(i)))
			time.Sleep(3 * time.Second)
		}
		w.wantValue(cm("x"), "19")
		if n := w.sentReports() - sent; n != 0 {
			t.Errorf("%d reports", n)
		}
	})
}

// reviewer answers reviews by what it denies.
type reviewer struct {
	mu    sync.Mutex
	deny  map[string][]string // verbs by cluster and kind
	asked map[string]int
}

func (r *reviewer) review(_ context.Context, cluster string, gvk schema.GroupVersionKind, namespaces, verbs []string) (Lack, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := cluster + "/" + gvk.Kind
	r.asked[key]++
	out := Lack{Resource: schema.GroupResource{Group: gvk.Group, Resource: strings.ToLower(gvk.Kind) + "s"}, Namespaces: namespaces}
	for _, verb := range r.deny[key] {
		if slices.Contains(verbs, verb) {
			out.Verbs = append(out.Verbs, verb)
		}
	}
	if len(out.Verbs) == 0 {
		return Lack{}, nil
	}
	return out, nil
}

func (r *reviewer) set(key string, verbs ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.deny[key] = verbs
}

func (r *reviewer) count(key string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.asked[key]
}

func inReviewedWorld(t *testing.T, f func(w *world, r *reviewer)) {
	inWorld(t, func(w *world) {
		r := &reviewer{deny: map[string][]string{}, asked: map[string]int{}}
		w.kill()
		w.options = func(o *Options) { o.Review = r.review }
		w.start()
		f(w, r)
	})
}

// A rule that may not watch its copies in one namespace says nothing about another one of the kind, also not after it is
// gone, while what it may have left there is not known.
func TestARefusedNamespaceIsThatOfItsRule(t *testing.T) {
	inWorld(t, func(w *world) {
		w.local.closed = map[string]bool{"default": true}
		w.local.addNamespace("late")
		w.setRule(testRule("refused"))
		r, obj := lateRule(false)
		w.setRule(r)
		w.peers[a].put(obj)
		w.settle()
		w.wantValue(serverKey(obj), "1")
		w.wantReady("refused", metav1.ConditionFalse, problem.ReasonMissingPermission)
		w.wantReady("r", metav1.ConditionTrue, ReasonSynced)
		w.e.DeleteRule("refused")
		w.restart(func() {})
		w.wantReady("r", metav1.ConditionTrue, ReasonSynced)
	})
}

// The same for what a review tells.
func TestALackConcernsTheRulesOfItsNamespaces(t *testing.T) {
	inWorld(t, func(w *world) {
		w.kill()
		w.options = func(o *Options) {
			o.Review = func(context.Context, string, schema.GroupVersionKind, []string, []string) (Lack, error) {
				return Lack{Resource: schema.GroupResource{Resource: "configmaps"}, Verbs: []string{"create"}, Namespaces: []string{"default"}}, nil
			}
		}
		w.start()
		w.local.addNamespace("late")
		w.setRule(testRule("lacking"))
		r, _ := lateRule(false)
		w.setRule(r)
		w.settle()
		w.wantReady("lacking", metav1.ConditionFalse, problem.ReasonMissingPermission)
		w.wantReady("r", metav1.ConditionTrue, ReasonSynced)
	})
}

// What the agent lacks is named before there is anything to copy, in words that can be pasted, and asked about
// with back-off until it is granted.
func TestMissingRightsAreNamedBeforehand(t *testing.T) {
	inReviewedWorld(t, func(w *world, r *reviewer) {
		r.set("/ConfigMap", "create", "delete")
		w.setRule(testRule("r"))
		w.settle()
		w.wantReady("r", metav1.ConditionFalse, problem.ReasonMissingPermission)
		m := w.report("r").Conditions[0].Message
		for _, want := range []string{
			"may not create, delete configmaps in namespace default here", "kubectl apply -f - <<< '{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole",
			"name: roster-write-configmaps", `cluster-registry.k8s.cisco.com/controller-aggregated: "true"`,
			`apiGroups: [""], resources: [configmaps], verbs: [get, list, watch, create, update, delete]`,
		} {
			if !strings.Contains(m, want) {
				t.Errorf("message %q lacks %q", m, want)
			}
		}
		time.Sleep(time.Hour)
		if n := r.count("/ConfigMap"); n < 10 || n > 30 {
			t.Errorf("%d reviews in an hour", n)
		}
		r.set("/ConfigMap")
		time.Sleep(rights.MaxInterval)
		w.settle()
		w.wantReady("r", metav1.ConditionTrue, ReasonSynced)
		n := r.count("/ConfigMap")
		time.Sleep(time.Hour)
		if more := r.count("/ConfigMap") - n; more != 0 {
			t.Errorf("%d more reviews of what is allowed", more)
		}
	})
}

// TestParityC15 of the engine: a refused write is retried, and its rights are reviewed, ever more seldom.
func TestReviewsOfRefusedWritesBackOff(t *testing.T) {
	inReviewedWorld(t, func(w *world, r *reviewer) {
		w.setRule(testRule("r"))
		w.settle()
		refuse := func(o *unstructured.Unstructured) error {
			return errForbidden(o, `User "agent" cannot create resource "configmaps"`)
		}
		w.local.admits(refuse)
		r.set("/ConfigMap", "create")
		for i := range 50 {
			w.peers[a].put(configMap(fmt.Sprintf("x%02d", i), "1"))
		}
		w.settle()
		time.Sleep(10 * time.Minute)
		w.wantReady("r", metav1.ConditionFalse, problem.ReasonMissingPermission)
		if m := w.report("r").Conditions[0].Message; !strings.Contains(m, "may not create configmaps") {
			t.Errorf("message %q", m)
		}
		if n := r.count("/ConfigMap"); n > 10 {
			t.Errorf("%d reviews", n)
		}
		if n := w.local.count("create"); n > 50*40 {
			t.Errorf("%d creates", n)
		}
		w.local.admits(nil)
		r.set("/ConfigMap")
		time.Sleep(rights.MaxInterval)
		w.settle()
		w.wantReady("r", metav1.ConditionTrue, ReasonSynced)
	})
}

func TestMissingRightsAtAPeer(t *testing.T) {
	inReviewedWorld(t, func(w *world, r *reviewer) {
		r.set(a+"/ConfigMap", "list", "watch")
		w.peers[a].cut(fmt.Errorf("%w: no", ErrForbidden))
		w.setRule(testRule("r"))
		w.settle()
		w.settle()
		w.wantReady("r", metav1.ConditionFalse, ReasonSourcePermission)
		m := w.report("r").Conditions[0].Message
		for _, want := range []string{"does not let this one list, watch configmaps", "roster-read-configmaps", "reader-aggregated", "verbs: [get, list, watch]"} {
			if !strings.Contains(m, want) {
				t.Errorf("message %q lacks %q", m, want)
			}
		}
		if r.count(b+"/ConfigMap") != 0 {
			t.Errorf("a peer that lets us in was asked")
		}
		w.peers[a].cut(nil)
		w.settle()
		w.wantReady("r", metav1.ConditionTrue, ReasonSynced)
		time.Sleep(time.Hour)
		n := r.count(a + "/ConfigMap")
		time.Sleep(time.Hour)
		if more := r.count(a+"/ConfigMap") - n; more != 0 {
			t.Errorf("%d more reviews of what is allowed", more)
		}
	})
}

// With GuardLive deletions that are seen count like those that a list lacks.
func TestGuardOfLiveDeletions(t *testing.T) {
	inWorld(t, func(w *world) {
		w.kill()
		w.options = func(o *Options) { o.GuardLive = true }
		w.start()
		w.setRule(testRule("r"))
		for i := range 30 {
			w.peers[a].put(configMap(fmt.Sprintf("x%02d", i), "1"))
		}
		w.settle()
		w.peers[a].remove(cm("x29")) // one by one is work
		w.settle()
		w.wantGone(cm("x29"))
		time.Sleep(2 * time.Minute) // the window of the guard
		for i := range 25 {
			w.peers[a].remove(cm(fmt.Sprintf("x%02d", i)))
		}
		w.settle()
		if n := len(w.local.names("ConfigMap")); n < 29-20 {
			t.Errorf("%d copies are left of 29: more than the guard lets go", n)
		}
		time.Sleep(time.Hour)
		w.wantReady("r", metav1.ConditionFalse, ReasonDeletionGuard)
		m := w.report("r").Conditions[0].Message
		if want := "agentctl guard confirm r --deletions=25 "; !strings.Contains(m, want) {
			t.Errorf("message %q lacks %q", m, want)
		}
		confirmed := w.rules["r"].DeepCopy()
		confirmed.Annotations = map[string]string{syncrules.AnnotationConfirmDeletions: "25"}
		w.e.SetRule(confirmed, nil)
		w.settle()
		if n := len(w.local.names("ConfigMap")); n != 4 {
			t.Errorf("%d copies after the confirmation, want 4", n)
		}
		w.wantReady("r", metav1.ConditionTrue, ReasonSynced)
	})
}

// Both policies in all of their combinations: what the source lets go of, and what the rule does.
func TestPoliciesAreIndependent(t *testing.T) {
	for _, source := range []v1alpha1.DeletionPolicy{v1alpha1.DeletionDelete, v1alpha1.DeletionOrphan} {
		for _, byRule := range []v1alpha1.DeletionPolicy{v1alpha1.DeletionDelete, v1alpha1.DeletionOrphan} {
			t.Run(string(source+byRule), func(t *testing.T) {
				inWorld(t, func(w *world) {
					policies := func(r *v1alpha1.ResourceSyncRule) *v1alpha1.ResourceSyncRule {
						r.Spec.DeletionPolicy, r.Spec.RuleDeletionPolicy = source, byRule
						return r
					}
					want := func(name string, policy v1alpha1.DeletionPolicy) {
						if policy == v1alpha1.DeletionOrphan {
							w.wantOwner(cm(name), a, true)
						} else {
							w.wantGone(cm(name))
						}
					}
					w.setRule(policies(testRule("r", "gone", "edited", "stays")))
					for _, name := range []string{"gone", "edited", "stays"} {
						w.peers[a].put(configMap(name, "1"))
					}
					w.settle()
					w.peers[a].remove(cm("gone"))
					w.settle()
					want("gone", source)
					w.setRule(policies(testRule("r", "gone", "stays")))
					w.settle()
					want("edited", byRule)
					w.wantOwner(cm("stays"), a, false)
					w.e.DeleteRule("r")
					w.settle()
					want("stays", byRule)
				})
			})
		}
	}
}
