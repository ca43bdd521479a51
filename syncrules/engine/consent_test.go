// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/syncrules/consent"
	"github.com/roster-mesh/roster/syncrules/engine/problem"
)

// swapSecret is the Secret that a cluster was introduced with.
func swapSecret(name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": name, "namespace": "default"},
		"type": v1alpha1.SecretType, "data": map[string]any{"kubeconfig": "aHVudGVyMg=="},
	}}
}

// A rule cannot carry swap Secrets to its author, whatever it makes of them, and also where Secrets may become ConfigMaps.
func TestRuleCarriesNoSwapSecrets(t *testing.T) {
	replace := func(path, value string) v1alpha1.Override {
		return v1alpha1.Override{Type: v1alpha1.OverrideReplace, Path: path, Value: value}
	}
	for name, mutate := range map[string]func(*v1alpha1.Mutations){
		"as Opaque":     func(m *v1alpha1.Mutations) { m.Overrides = []v1alpha1.Override{replace("/type", "Opaque")} },
		"as ConfigMaps": func(m *v1alpha1.Mutations) { m.GVK = &v1alpha1.GroupVersionKind{Kind: "ConfigMap"} },
		"by a name": func(m *v1alpha1.Mutations) {
			m.Overrides = []v1alpha1.Override{replace("/type", "Opaque"), replace("/metadata/name", "{{ .Object.data.kubeconfig | b64dec }}")}
		},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.e.o.Consent.SecretsAs = []string{"ConfigMap"}
				r := testRule("r")
				r.Spec.GVK.Kind = "Secret"
				mutate(&r.Spec.Rules[0].Mutations)
				w.setRule(r)
				w.peers[a].put(swapSecret("cluster-b"))
				w.settle()
				w.tellsNothing()
				w.wantReady("r", metav1.ConditionFalse, problem.ReasonConsentRequired)
			})
		})
	}
}

// tellsNothing checks that nothing was written, and that no report has the content of a Secret.
func (w *world) tellsNothing() {
	w.t.Helper()
	if n := w.local.writes(); n > 0 {
		w.t.Errorf("%d writes", n)
	}
	for name := range w.rules {
		if text := fmt.Sprintf("%+v", w.report(name)); strings.Contains(text, "hunter2") {
			w.t.Errorf("the report tells a secret: %s", text)
		}
	}
}

// Where a copy goes does not tell what a Secret holds, of whatever type: not by its name, by its namespace, by a namespace
// that is made for it, by a refusal that names the place, nor by two rules that disagree about it.
func TestPlaceTellsNoSecret(t *testing.T) {
	type paths = map[string]string
	content := "{{ .Object.data.x | b64dec }}"
	for name, rules := range map[string][]paths{
		"name":             {{"/metadata/name": content}},
		"namespace":        {{"/metadata/namespace": content}},
		"refused there":    {{"/metadata/name": content, "/metadata/namespace": "kube-system"}},
		"two rules, name":  {{"/metadata/name": content}, {"/metadata/name": "fixed{{ if .Object.data.x }}{{ .Object.data.x | b64dec }}{{ end }}{{ fail .Object.data.x }}"}},
		"two rules, place": {{"/metadata/name": content}, {"/metadata/namespace": content}},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				for i, overrides := range rules {
					r := testRule(fmt.Sprint("r", i))
					r.Spec.GVK.Kind, r.Spec.CreateNamespace = "Secret", true
					for path, value := range overrides {
						o := v1alpha1.Override{Type: v1alpha1.OverrideReplace, Path: path, Value: value}
						r.Spec.Rules[0].Mutations.Overrides = append(r.Spec.Rules[0].Mutations.Overrides, o)
					}
					w.setRule(r)
				}
				secret := swapSecret("x")
				secret.Object["type"] = "Opaque"
				secret.Object["data"] = map[string]any{"x": base64.StdEncoding.EncodeToString([]byte("hunter2"))}
				w.peers[a].put(secret)
				w.settle()
				w.tellsNothing()
				w.wantReady("r0", metav1.ConditionFalse, problem.ReasonSourceObject)
			})
		})
	}
}

// A cluster that nothing is taken from keeps its copies as they are, whatever becomes of its objects and of the rules.
func TestRefusedPeerFreezes(t *testing.T) {
	inWorld(t, func(w *world) {
		r := testRule("r")
		r.Spec.RuleDeletionPolicy = v1alpha1.DeletionDelete
		w.setRule(r)
		w.peers[a].put(configMap("x", "1"))
		w.peers[b].put(configMap("y", "1"))
		w.settle()
		w.wantOwner(cm("x"), a, false)
		w.e.SetPeer(Peer{ClusterID: a, Name: "paris", FeaturesKnown: true, Refused: "nothing is copied from cluster paris"})
		w.peers[a].put(configMap("x", "2"))
		w.peers[a].put(configMap("new", "2"))
		w.peers[b].put(configMap("y", "2"))
		w.settle()
		w.wantValue(cm("x"), "1")
		w.wantValue(cm("y"), "2")
		w.wantGone(cm("new"))
		w.wantReady("r", metav1.ConditionFalse, problem.ReasonConsentRequired)
		if m := w.report("r").Conditions[0].Message; !strings.Contains(m, "nothing is copied from cluster paris") {
			t.Errorf("message %q", m)
		}
		w.peers[a].remove(cm("x"))
		w.e.DeleteRule("r")
		w.settle()
		w.wantOwner(cm("x"), a, false)
		w.wantGone(cm("y"))
	})
}

// A rule that is not in force here changes nothing, also not what it copied; nor is anything watched for it.
func TestRefusedRuleYieldsToAnother(t *testing.T) {
	inWorld(t, func(w *world) {
		w.setRule(testRule("own"))
		w.setRule(testRule("theirs"))
		w.peers[a].put(configMap("x", "1"))
		w.peers[a].put(configMap("y", "1"))
		w.settle()
		w.e.SetRule(w.rules["theirs"], fmt.Errorf("%w: not in force", consent.ErrNeeded))
		w.settle()
		w.peers[a].put(configMap("x", "2"))
		w.settle()
		w.wantValue(cm("x"), "2")
		w.wantReady("own", metav1.ConditionTrue, problem.ReasonSynced)
	})
}

// What a refused rule made together with another one that does not ask for it any more stays.
func TestRefusedRuleHoldsWhatNoOtherOffers(t *testing.T) {
	inWorld(t, func(w *world) {
		deletes := testRule("own")
		deletes.Spec.RuleDeletionPolicy = v1alpha1.DeletionDelete
		w.setRule(deletes)
		w.setRule(testRule("theirs"))
		w.peers[a].put(configMap("x", "1"))
		w.settle()
		w.e.SetRule(w.rules["theirs"], fmt.Errorf("%w: not in force", consent.ErrNeeded))
		w.e.DeleteRule("own")
		w.settle()
		w.wantValue(cm("x"), "1")
	})
}

func TestRefusedRuleFreezes(t *testing.T) {
	inWorld(t, func(w *world) {
		w.setRule(testRule("r"))
		w.peers[a].put(configMap("x", "1"))
		w.settle()
		w.e.SetRule(w.rules["r"], fmt.Errorf("%w: not in force", consent.ErrNeeded))
		w.peers[a].put(configMap("x", "2"))
		w.peers[a].put(configMap("new", "2"))
		w.settle()
		w.wantReady("r", metav1.ConditionFalse, problem.ReasonConsentRequired)
		w.wantValue(cm("x"), "1")
		w.wantGone(cm("new"))
		w.peers[a].remove(cm("x"))
		w.settle()
		w.wantValue(cm("x"), "1")
		if n := len(w.e.views.byPeer[a]); n > 0 {
			t.Errorf("%d watches", n)
		}
		w.e.SetRule(w.rules["r"], nil)
		w.settle()
		w.wantValue(cm("new"), "2")
		w.wantGone(cm("x"))
	})
}
