// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package ui

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

// mark is how a thing is, as the page shows it: by a class, and by a sign for those who do not see its colour.
type mark string

const (
	good    mark = "good"
	unknown mark = "unknown" // cannot be told, or settles by itself
	bad     mark = "bad"
	none    mark = "none" // there is nothing to be good or bad
)

func markOf(h clusters.Health) mark {
	return map[clusters.Health]mark{clusters.Healthy: good, clusters.Unknown: unknown, clusters.Unhealthy: bad}[h]
}

// Sign is a mark in one character.
func (m mark) Sign() string {
	return map[mark]string{good: "✓", unknown: "?", bad: "✗", none: "–"}[m]
}

// rank is smaller for what is worse.
func (m mark) rank() int { return map[mark]int{bad: 0, unknown: 1, good: 2, none: 2}[m] }

// model is what the page shows. It is not changed after it was made.
type model struct {
	Cluster, Context string
	Mark             mark
	Headline         string
	Alerts           []alert // what cannot be watched
	Facts            []fact
	Waiting          []task
	mesh             *mesh
	matrix           *matrix
}

// alert is that an API server cannot be watched, with the command that looks closer.
type alert struct{ Text, Command string }

// Title is what the tab of the browser says.
func (m *model) Title() string { return m.Mark.Sign() + " " + m.Cluster + " – Roster" }

// fact is one of the numbers on top.
type fact struct {
	Mark        mark
	Value, Name string
}

// modelOf sums up what the clusters hold; the first one is whose view it is. It is pure.
func modelOf(all []Held, found []Finding) *model {
	own := all[0]
	m := &model{Cluster: own.name(), Context: own.Client.Context, matrix: matrixOf(all)}
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
		m.Alerts = append(m.Alerts, alert{text, commandFor(s.Client, "agentctl", "doctor")})
	}
	m.count(own)
	waiting, unhealthy := sorted(found)
	m.Waiting, m.mesh = waiting, meshOf(all, unhealthy)
	return m
}

// count finds the numbers on top, and in one line how the group is.
func (m *model) count(own Held) {
	var members, healthy, ready int
	var matched, synced, failed, conflicts int32
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
	}
	if own.local() == nil || len(m.Alerts) > 0 {
		worst = max(worst, clusters.Unknown)
	}
	m.Mark = markOf(worst)
	m.Headline = map[mark]string{good: "Everything is in sync", unknown: "Not everything is known", bad: "Something needs attention"}[m.Mark]
	m.Facts = []fact{
		{part(healthy, members), of(healthy, members), "clusters healthy"},
		{part(ready, len(own.Rules)), of(ready, len(own.Rules)), "rules ready"},
		{part(int(synced), int(matched)), of(synced, matched), "copies in sync"},
		{zero(failed), fmt.Sprint(failed), "copies failed"},
		{zero(conflicts), fmt.Sprint(conflicts), "conflicts"},
	}
}

func of[N int | int32](some, all N) string { return fmt.Sprintf("%d/%d", some, all) }

func part(some, all int) mark {
	switch {
	case all == 0:
		return none
	case some < all:
		return unknown
	}
	return good
}

func zero(n int32) mark {
	if n > 0 {
		return bad
	}
	return good
}

// commandFor is a command line about a cluster.
func commandFor(c *clusters.Client, words ...string) string {
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

// brief is a message as one line that a cell can show.
func brief(text string) string {
	const most = 400
	text = cli.OneLine(text)
	if r := []rune(text); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return text
}
