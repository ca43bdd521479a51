// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package ui

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/clusters"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

const (
	// mostCells is how large a matrix is shown whole. Of a larger one, mostRows and mostColumns are shown, those with
	// problems first, unless somebody asks for all.
	mostCells   = 6000
	mostRows    = 100
	mostColumns = 40
)

// matrix is clusters by rules, whole: a row for each cluster that the first of them lists, itself on top.
type matrix struct {
	Columns []column
	Rows    []row
}

// column is a rule.
type column struct {
	Name, Kind string
	Mark       mark
}

// row is a cluster.
type row struct {
	ID, Name           string
	Own                bool
	Mark               mark
	Message            string
	Mesh, API, Synced  cell
	Lag, Version, Told string // Told: through which context the cluster itself is read
	Cells              []cell // one for each column
}

// cell is how one thing is. There is how the cluster itself sees it, where it is read; "" where it is not.
type cell struct {
	Mark        mark
	Text, Title string
	There       mark
	ThereTitle  string
}

// matrixOf fills the matrix. A cell of the own cluster is the state of the rule there; one of another cluster is what the
// own cluster copies from there, and the state of the rule there, where that is read.
func matrixOf(all []Held) *matrix {
	own := all[0]
	m := &matrix{}
	sources := make([]map[string]*v1alpha1.SourceStatus, len(own.Rules))
	for i, r := range own.Rules {
		h, _, _ := clusters.RuleHealth(r)
		m.Columns = append(m.Columns, column{r.Name, r.Spec.GVK.Schema().GroupKind().String(), markOf(h)})
		sources[i] = make(map[string]*v1alpha1.SourceStatus, len(r.Status.Sources))
		for j := range r.Status.Sources {
			sources[i][string(r.Status.Sources[j].ClusterID)] = &r.Status.Sources[j]
		}
	}
	for _, c := range own.Clusters {
		id := string(c.Spec.ClusterID)
		if id == "" {
			continue // it is only listed
		}
		out := rowOf(c)
		there := rulesThere(all[1:], id)
		if there != nil {
			out.Told = there.Client.Context
		}
		var lag time.Duration
		for i, r := range own.Rules {
			one := fromSource(sources[i][id])
			if out.Own {
				one = ruleHere(r)
			} else if src := sources[i][id]; src != nil && src.Lag != nil {
				lag = max(lag, src.Lag.Duration)
			}
			if there != nil {
				one.There, one.ThereTitle = ruleThere(*there, r.Name)
			}
			out.Cells = append(out.Cells, one)
		}
		if lag > 0 {
			out.Lag = lag.Round(time.Millisecond).String()
		}
		m.Rows = append(m.Rows, out)
	}
	slices.SortStableFunc(m.Rows, func(a, b row) int {
		if a.Own != b.Own {
			return map[bool]int{true: -1, false: 1}[a.Own]
		}
		return strings.Compare(a.Name, b.Name)
	})
	return m
}

// rulesThere is what the cluster with this ID holds, or nil where it is not watched.
func rulesThere(others []Held, id string) *Held {
	for i := range others {
		if c := others[i].local(); c != nil && string(c.Spec.ClusterID) == id {
			return &others[i]
		}
	}
	return nil
}

func rowOf(c *v1alpha1.Cluster) row {
	h, message := clusters.MemberHealth(c)
	return row{
		ID: idOf("c", string(c.Spec.ClusterID)+" "+c.Name), Name: c.Name, Own: c.Status.Type == v1alpha1.ClusterTypeLocal,
		Mark: markOf(h), Message: brief(message), Version: c.Status.Version,
		Mesh:   conditionCell(c, v1alpha1.ConditionMember),
		API:    conditionCell(c, v1alpha1.ConditionReady),
		Synced: conditionCell(c, v1alpha1.ConditionClustersSynced),
	}
}

// conditionCell is what the agent says of a cluster in one condition.
func conditionCell(c *v1alpha1.Cluster, kind string) cell {
	cond := clusters.Condition(c, kind)
	switch {
	case cond == nil:
		return cell{Mark: unknown, Text: "unknown", Title: "no agent has written the condition " + kind}
	case cond.Status == metav1.ConditionTrue:
		return cell{Mark: good, Text: cond.Reason, Title: clusters.Explain(cond)}
	case cond.Status == metav1.ConditionFalse && c.Status.State != v1alpha1.ClusterStateDisabled:
		return cell{Mark: bad, Text: cond.Reason, Title: brief(clusters.Explain(cond))}
	}
	return cell{Mark: unknown, Text: cond.Reason, Title: brief(clusters.Explain(cond))}
}

// ruleHere is the state of a rule in the own cluster.
func ruleHere(r *v1alpha1.ResourceSyncRule) cell {
	h, ready, _ := clusters.RuleHealth(r)
	out := cell{Mark: markOf(h), Text: countOf(r.Status.Synced, r.Status.Matched)}
	if h != clusters.Healthy {
		out.Text = out.Mark.Sign() + " " + out.Text
		out.Title = brief(ready.Reason + ": " + ready.Message)
	} else if r.Status.Matched == 0 {
		out.Mark, out.Text = none, "0"
	}
	return out
}

// countOf says how many copies are in sync, and of how many where that is not all.
func countOf(synced, matched int32) string {
	if synced == matched {
		return fmt.Sprint(synced)
	}
	return of(synced, matched)
}

// fromSource is what the own cluster copies from another one by a rule.
func fromSource(src *v1alpha1.SourceStatus) cell {
	switch {
	case src == nil:
		return cell{Mark: none, Text: "–"}
	case !src.Watching:
		return cell{Mark: bad, Text: "frozen", Title: brief("copies from there stay as they are: " + src.Message)}
	case src.Failed > 0:
		return cell{Mark: bad, Text: bad.Sign() + " " + of(src.Synced, src.Matched), Title: brief(fmt.Sprintf("%d failed. %s", src.Failed, src.Message))}
	case src.Synced < src.Matched:
		return cell{Mark: unknown, Text: of(src.Synced, src.Matched), Title: brief(src.Message)}
	case src.Message != "":
		return cell{Mark: unknown, Text: fmt.Sprint(src.Synced), Title: brief(src.Message)}
	case src.Matched == 0:
		return cell{Mark: none, Text: "0"}
	}
	return cell{Mark: good, Text: fmt.Sprint(src.Synced)}
}

// ruleThere is the state of a rule in another cluster, as its own agent has written it there.
func ruleThere(there Held, name string) (state mark, title string) {
	r := there.rule(name)
	switch {
	case there.Problem != "" || !there.Complete:
		return unknown, there.name() + " cannot be read now"
	case r == nil:
		return bad, there.name() + " does not have this rule"
	}
	h, ready, _ := clusters.RuleHealth(r)
	return markOf(h), brief(fmt.Sprintf("%s says: %s: %s", there.name(), ready.Reason, ready.Message))
}

// filter is which part of the matrix somebody wants to see.
type filter struct {
	Text string // in the name of clusters, or of rules
	All  bool   // even if that is a lot
}

// cut is the part of the matrix that is shown, and in words how much of it that is; "" for all.
func (m *matrix) cut(f filter) (out matrix, note string) {
	rows, columns := indexes(len(m.Rows)), indexes(len(m.Columns))
	if text := strings.ToLower(f.Text); text != "" {
		has := func(name string) bool { return strings.Contains(strings.ToLower(name), text) }
		r := slices.DeleteFunc(slices.Clone(rows), func(i int) bool { return !has(m.Rows[i].Name) })
		c := slices.DeleteFunc(slices.Clone(columns), func(i int) bool { return !has(m.Columns[i].Name) })
		if len(r) > 0 || len(c) == 0 {
			rows = r
		}
		if len(c) > 0 {
			columns = c
		}
	}
	if !f.All && len(rows)*len(columns) > mostCells {
		rows = worst(rows, mostRows, func(i int) mark { return m.Rows[i].worst() })
		columns = worst(columns, mostColumns, func(i int) mark { return m.Columns[i].Mark })
	}
	for _, j := range columns {
		out.Columns = append(out.Columns, m.Columns[j])
	}
	for _, i := range rows {
		r := m.Rows[i]
		r.Cells = make([]cell, 0, len(columns))
		for _, j := range columns {
			r.Cells = append(r.Cells, m.Rows[i].Cells[j])
		}
		out.Rows = append(out.Rows, r)
	}
	if len(rows) < len(m.Rows) || len(columns) < len(m.Columns) {
		note = fmt.Sprintf("%d of %d clusters and %d of %d rules are shown", len(rows), len(m.Rows), len(columns), len(m.Columns))
	}
	return out, note
}

// worst is the mark of the worst of a row; its own cluster counts as bad, so that it is always shown.
func (r *row) worst() mark {
	if r.Own || r.Mark == bad || slices.ContainsFunc(r.Cells, func(c cell) bool { return c.Mark == bad || c.There == bad }) {
		return bad
	}
	return r.Mark
}

func indexes(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

// worst are the most, in their order, the bad ones before others.
func worst(all []int, most int, mark func(int) mark) []int {
	out := slices.Clone(all)
	slices.SortStableFunc(out, func(a, b int) int { return mark(a).rank() - mark(b).rank() })
	out = out[:min(len(out), most)]
	slices.Sort(out)
	return out
}
