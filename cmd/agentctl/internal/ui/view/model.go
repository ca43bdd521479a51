// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package view is what the page of agentctl ui shows, as values: numbers, the mesh, what waits for a person, the matrix of
// clusters and rules. It is pure: Of makes a Model of what some clusters hold, and how that looks is not known here.
package view

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/cli"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/clusters"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/live"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// Held is what one cluster holds.
type Held struct {
	Client *clusters.Client
	live.View
}

// local is the Cluster object that stands for the cluster itself; nil while no agent has said which.
func (s Held) local() *v1alpha1.Cluster {
	for _, c := range s.Clusters {
		if c.Status.Type == v1alpha1.ClusterTypeLocal {
			return c
		}
	}
	return nil
}

// name is what people call the cluster.
func (s Held) name() string {
	if c := s.local(); c != nil {
		return c.Name
	}
	return "context " + s.Client.Context
}

// rule is a rule of the cluster by its name, or nil.
func (s Held) rule(name string) *v1alpha1.ResourceSyncRule {
	for _, r := range s.Rules {
		if r.Name == name {
			return r
		}
	}
	return nil
}

// Mark is how a thing is, as the page shows it: by a class, and by a sign for those who do not see its colour.
type Mark string

const (
	Good    Mark = "good"
	Unknown Mark = "unknown" // cannot be told, or settles by itself
	Bad     Mark = "bad"
	None    Mark = "none" // there is nothing to be good or bad
)

func markOf(h clusters.Health) Mark {
	return map[clusters.Health]Mark{clusters.Healthy: Good, clusters.Unknown: Unknown, clusters.Unhealthy: Bad}[h]
}

// Sign is a mark in one character.
func (m Mark) Sign() string {
	return map[Mark]string{Good: "✓", Unknown: "?", Bad: "✗", None: "–"}[m]
}

// Rank is smaller for what is worse.
func (m Mark) Rank() int { return map[Mark]int{Bad: 0, Unknown: 1, Good: 2, None: 2}[m] }

// Model is what the page shows. It is not changed after it was made.
type Model struct {
	Cluster, Context string
	Mark             Mark
	Headline         string
	Alerts           []Alert // what cannot be watched
	Facts            []Fact
	Waiting          Tasks
	Mesh             *Mesh
	Matrix           *Matrix
}

// Alert is that an API server cannot be watched, with the command that looks closer.
type Alert struct{ Text, Command string }

// Title is what the tab of the browser says.
func (m *Model) Title() string { return m.Mark.Sign() + " " + m.Cluster + " – Roster" }

// Fact is one of the numbers on top.
type Fact struct {
	Mark        Mark
	Value, Name string
}

// Of sums up what the clusters hold; the first one is whose view it is. It is pure.
func Of(all []Held, found []Finding) *Model {
	own := all[0]
	m := &Model{Cluster: own.name(), Context: own.Client.Context, Matrix: matrixOf(all)}
	for _, s := range all {
		text := ""
		switch {
		case s.Problem != "":
			text = fmt.Sprintf("The API server of context %s cannot be watched, and what is shown of it may be old: %s", s.Client.Context, s.Problem)
		case !s.Complete:
			text = fmt.Sprintf("The API server of context %s has not answered yet.", s.Client.Context)
		default:
			continue
		}
		m.Alerts = append(m.Alerts, Alert{text, CommandFor(s.Client, "agentctl", "doctor")})
	}
	m.count(own)
	waiting, unhealthy := sorted(found)
	m.Waiting, m.Mesh = taskList(waiting, "Nothing waits for you."), meshOf(all, unhealthy)
	return m
}

// count finds the numbers on top, and in one line how the group is.
func (m *Model) count(own Held) {
	var members, healthy, ready int
	var matched, synced, failed, conflicts, drifted int32
	worst := clusters.Healthy
	for _, c := range own.Clusters {
		if c.Spec.ClusterID == "" {
			continue // it is only listed
		}
		h, _ := clusters.MemberHealth(c)
		worst = max(worst, h)
		members++
		if h == clusters.Healthy {
			healthy++
		}
	}
	for _, r := range own.Rules {
		h, _, _ := clusters.RuleHealth(r)
		worst = max(worst, h)
		if h == clusters.Healthy {
			ready++
		}
		st := r.Status
		matched, synced, failed, conflicts = matched+st.Matched, synced+st.Synced, failed+st.Failed, conflicts+st.Conflicts
		drifted += st.Drifted
	}
	if own.local() == nil || len(m.Alerts) > 0 {
		worst = max(worst, clusters.Unknown)
	}
	m.Mark = markOf(worst)
	m.Headline = map[Mark]string{Good: "Everything is in sync", Unknown: "Not everything is known", Bad: "Something needs attention"}[m.Mark]
	m.Facts = []Fact{
		{part(healthy, members), of(healthy, members), "clusters healthy"},
		{part(ready, len(own.Rules)), of(ready, len(own.Rules)), "rules ready"},
		{part(int(synced), int(matched)), of(synced, matched), "copies in sync"},
		{zero(failed), fmt.Sprint(failed), "copies failed"},
		{zero(conflicts), fmt.Sprint(conflicts), "conflicts"},
	}
	if drifted > 0 {
		m.Facts = append(m.Facts, Fact{Unknown, fmt.Sprint(drifted), "differ, and are only observed"})
	}
}

func of[N int | int32](some, all N) string { return fmt.Sprintf("%d/%d", some, all) }

func part(some, all int) Mark {
	switch {
	case all == 0:
		return None
	case some < all:
		return Unknown
	}
	return Good
}

func zero(n int32) Mark {
	if n > 0 {
		return Bad
	}
	return Good
}

// CommandFor is a command line about a cluster.
func CommandFor(c *clusters.Client, words ...string) string {
	if !c.InCluster {
		words = append(words, "--context", c.Context)
	}
	for i, word := range words {
		words[i] = cli.ShellWord(word)
	}
	return strings.Join(words, " ")
}

// idOf names a thing on the page by what nobody chose as a name for another: names may hold anything.
func idOf(kind, name string) string {
	sum := sha256.Sum256([]byte(name))
	return kind + hex.EncodeToString(sum[:8])
}

// Brief is a message as one line that a cell can show.
func Brief(text string) string {
	const most = 400
	text = cli.OneLine(text)
	if r := []rune(text); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return text
}
