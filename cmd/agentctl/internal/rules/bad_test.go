// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/cli"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/clusters"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/confirmations"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/fleet"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/syncrules/skew"
)

// ruleSaying is a rule whose agent says why it is not Ready; Ready for the reasons of those that are.
func ruleSaying(name, reason, message string) *v1alpha1.ResourceSyncRule {
	ready := metav1.Condition{Type: clusters.RuleReady, Status: metav1.ConditionFalse, Reason: reason, Message: message, ObservedGeneration: 1}
	if reason == "Synced" || reason == "Observing" {
		ready.Status = metav1.ConditionTrue
	}
	return &v1alpha1.ResourceSyncRule{
		ObjectMeta: metav1.ObjectMeta{Name: name, Generation: 1},
		Status:     v1alpha1.ResourceSyncRuleStatus{ObservedGeneration: 1, Conditions: []metav1.Condition{ready}},
	}
}

func memberCalled(name string) *fleet.Member { return &fleet.Member{Name: name, ID: "id-" + name} }

// printed is what a person sees of rules in members.
func printed(t *testing.T, format string, answers []fleet.Answer[[]ruleState]) string {
	t.Helper()
	var out bytes.Buffer
	if err := sumUp(answers).print(&cli.Output{Stdout: &out, Format: format}); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// A rule that is bad in 500 clusters fits a screen, what is worst comes first, and a person hears what is left out.
func TestBadClustersFitAScreen(t *testing.T) {
	t.Parallel()
	var answers []fleet.Answer[[]ruleState]
	for i := range 500 {
		m := memberCalled(fmt.Sprintf("c%03d", i))
		looks := ruleSaying("looks", "Observing", "")
		looks.Spec.Mode = v1alpha1.ModeObserve
		states := []ruleState{
			stateOf(m, looks), // well, though copies stay as they are
			stateOf(m, ruleSaying("slow", "Progressing", "3 to go")),
		}
		if i == 321 {
			states = append(states, stateOf(m, ruleSaying("torn", "Conflict", "two sources")))
		}
		answers = append(answers, fleet.Answer[[]ruleState]{Member: *m, Value: states})
	}
	text := printed(t, "table", answers)
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if want := 1 + 3 + 1 + 1 + maxBad + 1; len(lines) != want || lines[len(lines)-1] != "and 481 more: -o wide has all" {
		t.Errorf("%d lines, want %d:\n%s", len(lines), want, text)
	}
	if want := "torn   c321      Conflict: two sources; next: agentctl rules explain torn # in cluster c321"; lines[6] != want {
		t.Errorf("first is\n%s, want\n%s", lines[6], want)
	}
	if wide := printed(t, "wide", answers); strings.Count(wide, "\nslow ") != 1+500 || strings.Contains(wide, "more") {
		t.Errorf("-o wide has not all:\n%s", wide)
	}
}

// Where nothing is wrong there is the table alone.
func TestNoBadCluster(t *testing.T) {
	t.Parallel()
	m := memberCalled("east")
	text := printed(t, "table", []fleet.Answer[[]ruleState]{{Member: *m, Value: []ruleState{stateOf(m, ruleSaying("web", "Synced", "all"))}}})
	if strings.Count(text, "\n") != 2 {
		t.Error(text)
	}
}

// What to do is a command for the cluster where it is typed, by the context that leads there if the caller has one.
func TestNextStep(t *testing.T) {
	t.Parallel()
	there, here, pod := memberCalled("we st"), memberCalled("east"), memberCalled("pod")
	here.Own, here.Client = true, &clusters.Client{Context: "kind east"}
	pod.Own, pod.Client = true, &clusters.Client{Context: "in-cluster", InCluster: true}
	copied := ruleSaying("r", "Paused", "")
	copied.Annotations = map[string]string{v1alpha1.AnnotationOwnerClusterID: "id-other"}
	for want, of := range map[string]struct {
		m    *fleet.Member
		rule *v1alpha1.ResourceSyncRule
	}{
		"agentctl guard confirm r # in cluster 'we st'":                  {there, ruleSaying("r", confirmations.ReasonGuard, "")},
		"agentctl guard confirm 'r;x' --context 'kind east'":             {here, ruleSaying("r;x", confirmations.ReasonGuard, "")},
		"agentctl guard confirm r":                                       {pod, ruleSaying("r", confirmations.ReasonGuard, "")},
		"agentctl rules resume r --context 'kind east'":                  {here, ruleSaying("r", "Paused", "")},
		"agentctl rules resume r # in the cluster that the rule is from": {here, copied},
		"agentctl restore confirm # in the cluster that was restored":    {here, ruleSaying("r", "SourceRestored", "")},
		"agentctl orphans list # in cluster 'we st'":                     {there, ruleSaying("r", "Orphaned", "")},
		"upgrade the agent of cluster we st":                             {there, ruleSaying("r", skew.Reason, "")},
		"agentctl doctor # in cluster 'we st'":                           {there, &v1alpha1.ResourceSyncRule{}},
		"agentctl rules explain r # in cluster 'we st'":                  {there, ruleSaying("r", "MissingPermission", "")},
		"": {there, ruleSaying("r", "Progressing", "")},
	} {
		if got := stateOf(of.m, of.rule).next; got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
