// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/clusters"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/ui/grouptest"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// group is a cluster of grouptest, with a context.
func group(n, rules int) Held {
	return Held{Client: &clusters.Client{Context: "east"}, View: grouptest.Of(n, rules)}
}

func cells(r Row) string {
	var out []string
	for _, c := range append([]Cell{r.Mesh, r.API, r.Synced}, r.Cells...) {
		text := string(c.Mark) + " " + c.Text
		if c.There != "" {
			text += " there " + string(c.There)
		}
		out = append(out, text)
	}
	return strings.Join(out, ", ")
}

// A status lists a few sources that are not reached. Of another one that is not reached nobody knows what there is; one that is
// reached is no source if it is not listed.
func TestMatrixOfManyThatAreAway(t *testing.T) {
	t.Parallel()
	const most = v1alpha1.MaxAwaySources
	own := group(most+4, 1)
	listed := own.Rules[0].Status.Sources[:0]
	for _, c := range own.Clusters[1 : 1+most] {
		grouptest.Fail(c, "no route")
		listed = append(listed, v1alpha1.SourceStatus{ClusterID: c.Spec.ClusterID, Message: "no route"})
	}
	own.Rules[0].Status.Sources = listed
	grouptest.Fail(own.Clusters[most+1], "no route")
	texts := func() (out []string) {
		for _, r := range Of([]Held{own}, nil).Matrix.Rows[most : most+3] {
			out = append(out, string(r.Cells[0].Mark)+" "+r.Cells[0].Text)
		}
		return out
	}
	if got, want := strings.Join(texts(), ", "), "bad frozen, unknown unknown, none –"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	own.Rules[0].Status.Sources = listed[:most/2] // so the status lists all
	if got, want := strings.Join(texts(), ", "), "none –, none –, none –"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestMatrix(t *testing.T) {
	t.Parallel()
	own, there := group(3, 2), group(3, 2)
	grouptest.Fail(own.Clusters[2], "no route")
	own.Rules[0].Status.Sources[1] = v1alpha1.SourceStatus{ClusterID: "id-002", Message: "no route"}
	own.Rules[1].Status.Sources = own.Rules[1].Status.Sources[:1]
	own.Rules[1].Status.Sources[0].Synced, own.Rules[1].Status.Sources[0].Failed = 1, 1
	own.Rules[1].Status.Conditions[0] = grouptest.Condition(clusters.RuleReady, metav1.ConditionFalse, "Refused", "by a policy")
	// The second cluster is read, too: it has one rule of the two.
	there.Client = &clusters.Client{Context: "west"}
	there.Clusters[0].Status.Type, there.Clusters[1].Status.Type = v1alpha1.ClusterTypePeer, v1alpha1.ClusterTypeLocal
	there.Rules = there.Rules[:1]

	m := Of([]Held{own, there}, nil)
	want := []string{
		"good Local, good Reachable, good Synced, good 4, bad ✗ 4",
		"good Alive, good Reachable, good Synced, good 2 there good, bad ✗ 1/2 there bad",
		"bad Failed, bad APIUnreachable, good Synced, bad frozen, none –",
	}
	for i, r := range m.Matrix.Rows {
		if got := cells(r); got != want[i] {
			t.Errorf("%s is\n%s, want\n%s", r.Name, got, want[i])
		}
	}
	// What the other cluster says is in the title of the cell, where it is not fine.
	for i, want := range []string{"", "1 failed; cluster-001 does not have this rule"} {
		if got := m.Matrix.Rows[1].Cells[i].Title; got != want {
			t.Errorf("the title of cell %d is %q, want %q", i, got, want)
		}
	}
	if m.Mark != Bad || m.Facts[0].Value != "2/3" || m.Facts[1].Value != "1/2" {
		t.Errorf("summary: %s, %+v", m.Mark, m.Facts)
	}
	// What cannot be read is not known: neither fine, nor missing.
	there.Problem, there.Rules = "no route", nil
	m = Of([]Held{group(3, 2), there}, nil)
	if got, want := cells(m.Matrix.Rows[1]), "good Alive, good Reachable, good Synced, good 2 there unknown, good 2 there unknown"; got != want {
		t.Errorf("it is\n%s, want\n%s", got, want)
	}
	if got := m.Matrix.Rows[1].Cells[0].Title; got != "cluster-001 cannot be read now" {
		t.Errorf("its title is %q", got)
	}
	if m.Mark != Unknown || len(m.Alerts) != 1 || !strings.Contains(m.Alerts[0].Text, "west") || m.Alerts[0].Command != "agentctl doctor --context west" {
		t.Errorf("summary: %s, %q", m.Mark, m.Alerts)
	}
}

// Red is what is known to be bad. What is not known, what ends by itself, what somebody wants so, and what is told in other rows is not.
func TestConditionCells(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		kind   string
		status metav1.ConditionStatus
		reason string
		change func(*v1alpha1.Cluster)
		want   Mark
	}{
		{v1alpha1.ConditionReady, metav1.ConditionTrue, "Connected", nil, Good},
		{v1alpha1.ConditionReady, metav1.ConditionUnknown, "APIUnreachable", nil, Unknown},
		{v1alpha1.ConditionReady, metav1.ConditionFalse, "APIUnreachable", nil, Bad},
		{v1alpha1.ConditionReady, metav1.ConditionFalse, "Disabled", func(c *v1alpha1.Cluster) { c.Status.State = v1alpha1.ClusterStateDisabled }, Unknown},
		{v1alpha1.ConditionClustersSynced, metav1.ConditionFalse, "NotMet", nil, Bad},
		{v1alpha1.ConditionClustersSynced, metav1.ConditionFalse, "CatchingUp", nil, Unknown},
		{v1alpha1.ConditionClustersSynced, metav1.ConditionFalse, "PeersNotSynced", func(c *v1alpha1.Cluster) { c.Status.Type = v1alpha1.ClusterTypeLocal }, Unknown},
	} {
		c := &v1alpha1.Cluster{}
		c.Status.Type = v1alpha1.ClusterTypePeer
		c.Status.Conditions = []metav1.Condition{grouptest.Condition(test.kind, test.status, test.reason, "")}
		if test.change != nil {
			test.change(c)
		}
		if got := conditionCell(c, test.kind); got.Mark != test.want || got.Text != test.reason {
			t.Errorf("%s=%s (%s): the cell is %+v, want %s", test.kind, test.status, test.reason, got, test.want)
		}
	}
	if got := conditionCell(&v1alpha1.Cluster{}, v1alpha1.ConditionReady); got.Mark != Unknown || got.Title == "" {
		t.Errorf("without a condition, the cell is %+v", got)
	}
}

func TestMatrixCut(t *testing.T) {
	t.Parallel()
	own := group(500, 100)
	grouptest.Fail(own.Clusters[499], "no route")
	own.Rules[99].Status.Conditions[0] = grouptest.Condition(clusters.RuleReady, metav1.ConditionFalse, "Refused", "by a policy")
	m := Of([]Held{own}, nil).Matrix
	for f, want := range map[Filter]string{
		{}:                        "100 40 cluster-000 cluster-499 rule-99",
		{All: true}:               "500 100 cluster-000 cluster-499 rule-99",
		{Text: "Cluster-00"}:      "10 100 cluster-000 cluster-009 rule-99",
		{Text: "rule-07"}:         "500 1 cluster-000 cluster-499 rule-07",
		{Text: "no such thing"}:   "0 100 rule-99",
		{Text: "-00", All: false}: "10 1 cluster-000 cluster-009 rule-00",
	} {
		out, note := m.Cut(f)
		got := fmt.Sprint(len(out.Rows), " ", len(out.Columns))
		if n := len(out.Rows); n > 0 {
			got += " " + out.Rows[0].Name + " " + out.Rows[n-1].Name
		}
		got += " " + out.Columns[len(out.Columns)-1].Name
		if got != want || (note == "") != (len(out.Rows) == 500 && len(out.Columns) == 100) {
			t.Errorf("%+v: %s, want %s; note %q", f, got, want, note)
		}
		for _, r := range out.Rows {
			if len(r.Cells) != len(out.Columns) {
				t.Fatalf("%+v: %d cells for %d columns", f, len(r.Cells), len(out.Columns))
			}
		}
	}
}

// What rules only look at and find different is neither fine nor a problem.
func TestMatrixShowsDrift(t *testing.T) {
	t.Parallel()
	own, there := group(2, 1), group(2, 1)
	own.Rules[0].Status.Drifted, there.Rules[0].Status.Drifted = 3, 1
	there.Client = &clusters.Client{Context: "west"}
	there.Clusters[0].Status.Type, there.Clusters[1].Status.Type = v1alpha1.ClusterTypePeer, v1alpha1.ClusterTypeLocal
	m := Of([]Held{own, there}, nil)
	for i, want := range []string{"good Local, good Reachable, good Synced, unknown ≠ 3", "good Alive, good Reachable, good Synced, good 2 there unknown"} {
		if got := cells(m.Matrix.Rows[i]); got != want {
			t.Errorf("it is\n%s, want\n%s", got, want)
		}
	}
	if last := m.Facts[len(m.Facts)-1]; last != (Fact{Unknown, "3", "differ, and are only observed"}) {
		t.Errorf("the last fact is %+v", last)
	}
}
