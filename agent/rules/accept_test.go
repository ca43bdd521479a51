// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roster-mesh/roster/agent/agenttest"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/mesh/trust"
	"github.com/roster-mesh/roster/syncrules/consent"
	"github.com/roster-mesh/roster/syncrules/engine"
	"github.com/roster-mesh/roster/syncrules/engine/problem"
)

// ready is what the engine says of a rule.
func (w *world) ready(t *testing.T, name string) (reason, message string) {
	t.Helper()
	status, _, _ := w.reports.read(name)
	c := meta.FindStatusCondition(status.Conditions, engine.ConditionReady)
	if c == nil {
		t.Fatalf("no condition in %+v", status)
	}
	return c.Reason, c.Message
}

// The rules of a cluster are in force here as far as this cluster accepts them; its own rules and orphans are not judged
// by that. The Cluster object may be known later than the rule.
func TestRulesOfClusterThatIsNotAccepted(t *testing.T) {
	w := newWorld(t)
	theirs, own, orphan := rule("theirs", idB, "1"), rule("own", "", "1"), rule("orphan", idC, "1")
	orphan.Annotations[v1alpha1.AnnotationOrphaned] = ""
	for _, r := range []*v1alpha1.ResourceSyncRule{theirs, own, orphan} {
		r.Spec.GVK = v1alpha1.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}
		w.put(t, r)
		w.RuleChanged(nil, r)
	}
	c, b := agenttest.Cluster("oslo", idC), agenttest.Cluster("paris", idB)
	for _, x := range []*v1alpha1.Cluster{c, b} {
		x.Annotations = map[string]string{v1alpha1.AnnotationAccept: "objects"}
	}
	w.put(t, c, b)
	w.Ready()
	w.known(t, "theirs", "own", "orphan")
	reason, message := w.ready(t, "theirs")
	if reason != "ConsentRequired" || !strings.Contains(message, "agentctl accept paris all") {
		t.Errorf("%s: %s", reason, message)
	}
	for _, name := range []string{"own", "orphan"} {
		if reason, message := w.ready(t, name); reason == "ConsentRequired" {
			t.Errorf("%s: %s", name, message)
		}
	}
}

// A rule with fields that the agent does not know is refused, whosoever it is: also one of this cluster's own.
func TestRuleThatIsNotUnderstood(t *testing.T) {
	w := newWorld(t)
	for name, owner := range map[string]string{"theirs": idB, "own": ""} {
		r := rule(name, owner, "1")
		r.Spec.GVK = v1alpha1.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}
		metav1.SetMetaDataAnnotation(&r.ObjectMeta, v1alpha1.AnnotationNotUnderstood, "spec.future")
		w.put(t, r)
		w.RuleChanged(nil, r)
	}
	w.Ready()
	w.known(t, "theirs", "own")
	for _, name := range []string{"theirs", "own"} {
		if reason, message := w.ready(t, name); reason != problem.ReasonNotUnderstood || !strings.Contains(message, "spec.future") {
			t.Errorf("%s: %s: %s", name, reason, message)
		}
	}
}

// An annotation that was changed counts at once.
func TestAcceptedLater(t *testing.T) {
	w := newWorld(t)
	w.options.Accept = consent.AcceptNone
	theirs, b := rule("theirs", idB, "1"), agenttest.Cluster("paris", idB)
	theirs.Spec.GVK = v1alpha1.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}
	w.put(t, theirs, b)
	w.RuleChanged(nil, theirs)
	if got := w.enginePeer(idB); got.Refused == "" || got.Source != nil {
		t.Errorf("%+v", got)
	}
	b.Annotations = map[string]string{v1alpha1.AnnotationAccept: "all"}
	w.put(t, b)
	w.AcceptChanged(idB)
	w.known(t, "theirs")
	if reason, message := w.ready(t, "theirs"); reason == "ConsentRequired" {
		t.Errorf("%s: %s", reason, message)
	}
	if got := w.enginePeer(idB); got.Refused != "" {
		t.Errorf("%+v", got)
	}
}

// A change of what is accepted passes no rule to the engine that waits for its owner since a restore: the cache has the
// older rule before its handler is called.
func TestAcceptedWhileRulesWait(t *testing.T) {
	for accept, want := range map[string]bool{"all": false, "objects": true} {
		w := newWorld(t)
		r, b := rule("theirs", idB, "5"), agenttest.Cluster("paris", idB)
		r.Spec.GVK = v1alpha1.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}
		w.options.Accept = consent.AcceptNone
		w.put(t, r, b)
		w.RuleChanged(nil, r)
		older := r.DeepCopy()
		older.ResourceVersion, older.Spec.GVK.Kind = "2", "" // which is not valid, as its report says
		b.Annotations = map[string]string{v1alpha1.AnnotationAccept: accept}
		w.put(t, older, b)
		w.AcceptChanged(idB)
		w.RuleChanged(r, older)
		w.known(t, "theirs")
		if reason, message := w.ready(t, "theirs"); reason == problem.ReasonInvalidRule || (reason == "ConsentRequired") != want {
			t.Errorf("%s: %s: %s", accept, reason, message)
		}
	}
}

func TestObjectsOfClusterThatIsNotAccepted(t *testing.T) {
	for value, refused := range map[string]bool{"all": false, "objects": false, "none": true, "nobody": true} {
		w, b := newWorld(t), agenttest.Cluster("paris", idB)
		b.Annotations = map[string]string{v1alpha1.AnnotationAccept: value}
		w.put(t, b)
		got := w.enginePeer(idB)
		if (got.Refused != "") != refused || refused && !strings.Contains(got.Refused, v1alpha1.AnnotationAccept) {
			t.Errorf("%s: %q", value, got.Refused)
		}
	}
}

// The rules of a cluster that is an edge are not in force here, whatever is accepted of it, until it is a full member.
func TestRulesOfAnEdge(t *testing.T) {
	w := newWorld(t)
	if err := w.trust.PinEdge(idC, agenttest.PublicKey(idC)); err != nil {
		t.Fatal(err)
	}
	theirs, c := rule("theirs", idC, "1"), agenttest.Cluster("oslo", idC)
	theirs.Spec.GVK = v1alpha1.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}
	c.Annotations = map[string]string{v1alpha1.AnnotationAccept: "all"}
	w.put(t, theirs, c)
	w.RuleChanged(nil, theirs)
	w.Ready()
	w.known(t, "theirs")
	if reason, message := w.ready(t, "theirs"); reason != "ConsentRequired" || !strings.Contains(message, "its role in the group is edge") || w.Accepts(idC) || !w.Accepts(idB) {
		t.Errorf("%s: %s", reason, message)
	}
	if err := w.trust.Pin(idC, agenttest.PublicKey(idC)); err != nil {
		t.Fatal(err)
	}
	if err := w.updatePeer(t.Context(), idC); err != nil {
		t.Fatal(err)
	}
	if w.unsettled.passed["theirs"].refused != "" || !w.Accepts(idC) {
		t.Error("it is a full member, and its rule is not in force")
	}
}

// The rules of a cluster that is no member any more are not in force, also before they are orphans: those of an edge never were, and
// the role goes with the pin.
func TestRulesOfWhoIsNoMember(t *testing.T) {
	for name, pin := range map[string]func(*trust.Table) error{
		"an edge":       func(t *trust.Table) error { return t.PinEdge(idC, agenttest.PublicKey(idC)) },
		"a full member": func(t *trust.Table) error { return t.Pin(idC, agenttest.PublicKey(idC)) },
	} {
		w := newWorld(t)
		if err := pin(w.trust); err != nil {
			t.Fatal(err)
		}
		theirs, c := rule("theirs", idC, "1"), agenttest.Cluster("oslo", idC)
		theirs.Spec.GVK = v1alpha1.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}
		w.put(t, theirs, c)
		w.RuleChanged(nil, theirs)
		w.Ready()
		w.known(t, "theirs")
		w.trust.Remove(idC, agenttest.PublicKey(idC), nil, true)
		w.drop(t, c) // which has its rules judged again
		w.AcceptChanged(idC)
		if got := w.unsettled.passed["theirs"].refused; !strings.Contains(got, "it is no member") || w.Accepts(idC) {
			t.Errorf("%s has left, and its rule is in force: %q", name, got)
		}
		theirs = theirs.DeepCopy()
		theirs.ResourceVersion, theirs.Annotations[v1alpha1.AnnotationOrphaned] = "2", "true"
		w.put(t, theirs)
		w.RuleChanged(nil, theirs)
		if got := w.unsettled.passed["theirs"].refused; got != "" {
			t.Errorf("%s: an orphan is refused: %q", name, got)
		}
	}
}

// A rule of this cluster's own says that others may not have it in force while they say that this cluster is an edge, and no longer.
func TestOwnRuleOfAnEdge(t *testing.T) {
	w := newWorld(t)
	own, theirs := rule("own", "", "1"), rule("theirs", idB, "1")
	w.put(t, own, theirs)
	for _, r := range []string{"own", "theirs"} {
		w.reported(r, engine.RuleReport{})
	}
	for _, edge := range []bool{true, false} {
		w.trust.Admit(trust.Admission{Author: idB, ClusterID: idA, PublicKey: agenttest.PublicKey(idA), Edge: edge})
		for _, r := range []*v1alpha1.ResourceSyncRule{own, theirs} {
			w.fillStatus(r)
			if shared := meta.FindStatusCondition(r.Status.Conditions, conditionShared); (shared != nil) != (edge && r == own) || shared != nil && shared.Status != metav1.ConditionUnknown {
				t.Errorf("an edge: %t, rule %s: %v", edge, r.Name, shared)
			}
		}
	}
}
