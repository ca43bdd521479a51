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

	"github.com/roster-mesh/roster/syncrules/engine/problem"
	"github.com/roster-mesh/roster/syncrules/engine/rights"
)

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
		w.wantReady("r", metav1.ConditionTrue, problem.ReasonSynced)
		w.e.DeleteRule("refused")
		w.restart(func() {})
		w.wantReady("r", metav1.ConditionTrue, problem.ReasonSynced)
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
		w.wantReady("r", metav1.ConditionTrue, problem.ReasonSynced)
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
		w.wantReady("r", metav1.ConditionTrue, problem.ReasonSynced)
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
		w.wantReady("r", metav1.ConditionTrue, problem.ReasonSynced)
	})
}

func TestMissingRightsAtAPeer(t *testing.T) {
	inReviewedWorld(t, func(w *world, r *reviewer) {
		r.set(a+"/ConfigMap", "list", "watch")
		w.peers[a].cut(fmt.Errorf("%w: no", ErrForbidden))
		w.setRule(testRule("r"))
		w.settle()
		w.settle()
		w.wantReady("r", metav1.ConditionFalse, problem.ReasonSourcePermission)
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
		w.wantReady("r", metav1.ConditionTrue, problem.ReasonSynced)
		time.Sleep(time.Hour)
		n := r.count(a + "/ConfigMap")
		time.Sleep(time.Hour)
		if more := r.count(a+"/ConfigMap") - n; more != 0 {
			t.Errorf("%d more reviews of what is allowed", more)
		}
	})
}

// A grant of Secrets is for the namespaces of the rule, also where another rule wants all, and never for the others in all.
func TestMissingRightsToSecrets(t *testing.T) {
	inReviewedWorld(t, func(w *world, r *reviewer) {
		r.set(a+"/Secret", "list", "watch")
		w.peers[a].cut(fmt.Errorf("%w: no", ErrForbidden))
		for name, namespaces := range map[string][]string{"one": {"default"}, "all": nil} {
			rule := testRule(name)
			rule.Spec.GVK.Kind, rule.Spec.Rules[0].Matches[0].Namespaces = "Secret", namespaces
			rule.Spec.Rules[0].Matches[0].Labels = []metav1.LabelSelector{{MatchLabels: map[string]string{"x": "y"}}}
			w.setRule(rule)
		}
		w.settle()
		w.settle()
		for name, want := range map[string]string{
			"one": "does not let this one list, watch secrets in namespace default; grant it there with: kubectl apply -f - <<< '{apiVersion: v1, kind: List, items: [{apiVersion: rbac.authorization.k8s.io/v1, kind: Role,",
			"all": "does not let this one list, watch secrets; name namespaces in the rule",
		} {
			w.wantReady(name, metav1.ConditionFalse, problem.ReasonSourcePermission)
			if m := w.report(name).Conditions[0].Message; !strings.Contains(m, want) || strings.Contains(m, "reader-aggregated") {
				t.Errorf("rule %s says %q", name, m)
			}
		}
	})
}
