// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"fmt"
	"slices"
	"strings"
	"time"

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

// Matrix is clusters by rules, whole: a row for each cluster that the first of them lists, itself on top.
type Matrix struct {
	Columns []Column
	Rows    []Row
}

// Column is a rule.
type Column struct {
	Name, Kind string
	Mark       Mark
}

// Row is a cluster.
type Row struct {
	ID, Name           string
	Own                bool
	Mark               Mark
	Message            string
	Mesh, API, Synced  Cell
	Lag, Version, Told string // Told: through which context the cluster itself is read
	Cells              []Cell // one for each column
}

// Cell is how one thing is, and in Title why it is not fine. There is how the cluster itself sees it, where it is read; "" where it
// is not.
type Cell struct {
	Mark        Mark
	Text, Title string
	There       Mark
	ThereTitle  string
}

// matrixOf fills the matrix. A cell of the own cluster is the state of the rule there; one of another cluster is what the
// own cluster copies from there, and the state of the rule there, where that is read.
func matrixOf(all []Held) *Matrix {
	own := all[0]
	m := &Matrix{}
	sources := make([]map[string]*v1alpha1.SourceStatus, len(own.Rules))
	cut := make([]bool, len(own.Rules)) // the status may lack sources
	for i, r := range own.Rules {
		h, _, _ := clusters.RuleHealth(r)
		m.Columns = append(m.Columns, Column{r.Name, r.Spec.GVK.Schema().GroupKind().String(), markOf(h)})
		away := 0
		sources[i] = make(map[string]*v1alpha1.SourceStatus, len(r.Status.Sources))
		for j := range r.Status.Sources {
			sources[i][string(r.Status.Sources[j].ClusterID)] = &r.Status.Sources[j]
			if !r.Status.Sources[j].Watching {
				away++
			}
		}
		cut[i] = away >= v1alpha1.MaxAwaySources
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
			if sources[i][id] == nil && cut[i] && out.API.Mark != Good {
				one = Cell{Mark: Unknown, Text: "unknown", Title: fmt.Sprintf("of clusters that are not reached the rule's status lists %d, and not this one", v1alpha1.MaxAwaySources)}
			}
			if out.Own {
				one = ruleHere(r)
			} else if src := sources[i][id]; src != nil && src.Lag != nil {
				lag = max(lag, src.Lag.Duration)
			}
			if there != nil {
				one.saysThere(ruleThere(*there, r.Name))
			}
			out.Cells = append(out.Cells, one)
		}
		if lag > 0 {
			out.Lag = lag.Round(time.Millisecond).String()
		}
		m.Rows = append(m.Rows, out)
	}
	slices.SortStableFunc(m.Rows, func(a, b Row) int {
		if a.Own != b.Own {
			return map[bool]int{true: -1, false: 1}[a.Own]
		}
		return strings.Compare(a.Name, b.Name)
	})
	return m
}

// saysThere adds how the cluster itself sees it. What is not fine is part of the title, too: nobody gets to the sign without a mouse.
func (c *Cell) saysThere(state Mark, title string) {
	c.There, c.ThereTitle = state, title
	if state == Good {
		return
	}
	if c.Title != "" {
		title = strings.TrimSuffix(c.Title, ".") + "; " + title
	}
	c.Title = title
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

func rowOf(c *v1alpha1.Cluster) Row {
	h, message := clusters.MemberHealth(c)
	return Row{
		ID: idOf("c", string(c.Spec.ClusterID)+" "+c.Name), Name: c.Name, Own: c.Status.Type == v1alpha1.ClusterTypeLocal,
		Mark: markOf(h), Message: Brief(message), Version: c.Status.Version,
		Mesh:   conditionCell(c, v1alpha1.ConditionMember),
		API:    conditionCell(c, v1alpha1.ConditionReady),
		Synced: conditionCell(c, v1alpha1.ConditionClustersSynced),
	}
}

// conditionCell is what the agent says of a cluster in one condition.
func conditionCell(c *v1alpha1.Cluster, kind string) Cell {
	cond := clusters.Condition(c, kind)
	if cond == nil {
		return Cell{Mark: Unknown, Text: "unknown", Title: "no agent has written the condition " + kind}
	}
	out := Cell{Mark: markOf(clusters.ConditionHealth(c, kind)), Text: cond.Reason, Title: Brief(clusters.Explain(cond))}
	peers := kind == v1alpha1.ConditionClustersSynced && c.Status.Type == v1alpha1.ClusterTypeLocal // each has a row, which is as bad as it is
	if out.Mark == Bad && (peers || c.Status.State == v1alpha1.ClusterStateDisabled) {
		out.Mark = Unknown
	}
	return out
}

// ruleHere is the state of a rule in the own cluster.
func ruleHere(r *v1alpha1.ResourceSyncRule) Cell {
	h, ready, _ := clusters.RuleHealth(r)
	out := Cell{Mark: markOf(h), Text: countOf(r.Status.Synced, r.Status.Matched)}
	if h != clusters.Healthy {
		out.Text = out.Mark.Sign() + " " + out.Text
		out.Title = Brief(ready.Reason + ": " + ready.Message)
	} else if n := r.Status.Drifted; n > 0 {
		out.Mark, out.Text = Unknown, fmt.Sprintf("≠ %d", n)
		out.Title = fmt.Sprintf("it only observes: %d objects are not as it would have them", n)
	} else if r.Status.Matched == 0 {
		out.Mark, out.Text = None, "0"
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
func fromSource(src *v1alpha1.SourceStatus) Cell {
	switch {
	case src == nil:
		return Cell{Mark: None, Text: "–"}
	case !src.Watching:
		return Cell{Mark: Bad, Text: "frozen", Title: Brief("copies from there stay as they are: " + src.Message)}
	case src.Failed > 0:
		return Cell{Mark: Bad, Text: Bad.Sign() + " " + of(src.Synced, src.Matched), Title: Brief(fmt.Sprintf("%d failed. %s", src.Failed, src.Message))}
	case src.Synced < src.Matched:
		return Cell{Mark: Unknown, Text: of(src.Synced, src.Matched), Title: Brief(src.Message)}
	case src.Message != "":
		return Cell{Mark: Unknown, Text: fmt.Sprint(src.Synced), Title: Brief(src.Message)}
	case src.Matched == 0:
		return Cell{Mark: None, Text: "0"}
	}
	return Cell{Mark: Good, Text: fmt.Sprint(src.Synced)}
}

// ruleThere is the state of a rule in another cluster, as its own agent has written it there.
func ruleThere(there Held, name string) (state Mark, title string) {
	r := there.rule(name)
	switch {
	case there.Problem != "" || !there.Complete:
		return Unknown, there.name() + " cannot be read now"
	case r == nil:
		return Bad, there.name() + " does not have this rule"
	}
	h, ready, _ := clusters.RuleHealth(r)
	state = markOf(h)
	if state == Good && r.Status.Drifted > 0 {
		state = Unknown
	}
	return state, Brief(fmt.Sprintf("%s says: %s: %s", there.name(), ready.Reason, ready.Message))
}

// Filter is which part of the matrix somebody wants to see.
type Filter struct {
	Text string // in the name of clusters, or of rules
	All  bool   // even if that is a lot
}

// Cut is the part of the matrix that is shown, and in words how much of it that is; "" for all.
func (m *Matrix) Cut(f Filter) (out Matrix, note string) {
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
		rows = worst(rows, mostRows, func(i int) Mark { return m.Rows[i].worst() })
		columns = worst(columns, mostColumns, func(i int) Mark { return m.Columns[i].Mark })
	}
	for _, j := range columns {
		out.Columns = append(out.Columns, m.Columns[j])
	}
	for _, i := range rows {
		r := m.Rows[i]
		r.Cells = make([]Cell, 0, len(columns))
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
func (r *Row) worst() Mark {
	if r.Own || r.Mark == Bad || slices.ContainsFunc(r.Cells, func(c Cell) bool { return c.Mark == Bad || c.There == Bad }) {
		return Bad
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
func worst(all []int, most int, is func(int) Mark) []int {
	out := slices.Clone(all)
	slices.SortStableFunc(out, func(a, b int) int { return is(a).Rank() - is(b).Rank() })
	out = out[:min(len(out), most)]
	slices.Sort(out)
	return out
}
