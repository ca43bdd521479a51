// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"fmt"
	"time"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/clusters"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// groupView is the group as the agent of one cluster sees it. Its JSON is stable: fields are only ever added.
type groupView struct {
	Context   string          `json:"context"`
	Cluster   string          `json:"cluster"`
	ClusterID string          `json:"clusterID"`
	Health    clusters.Health `json:"health"` // healthy, unknown or problems: the exit code says the same
	Members   []memberView    `json:"members"`
	Rules     ruleCounts      `json:"rules"`
	Unready   []ruleView      `json:"rulesWithProblems"`
	Problems  []string        `json:"problems"` // one line each, worst first
}

type memberView struct {
	Name      string          `json:"name"`
	ClusterID string          `json:"clusterID"`
	Type      string          `json:"type"`
	State     string          `json:"state"`           // of its agent in the mesh
	Since     string          `json:"since,omitempty"` // RFC 3339
	Status    string          `json:"status"`          // of the Cluster object
	Synced    string          `json:"synced"`
	Lag       string          `json:"lag,omitempty"` // the longest that the last change of a rule took from there to here
	Version   string          `json:"version"`
	Health    clusters.Health `json:"health"`
	Message   string          `json:"message"`

	since time.Time
	lag   time.Duration
}

type ruleCounts struct {
	Total     int   `json:"total"`
	Ready     int   `json:"ready"`
	Matched   int32 `json:"matched"`
	Synced    int32 `json:"synced"`
	Failed    int32 `json:"failed"`
	Conflicts int32 `json:"conflicts"`
}

// ruleView is a rule that is not as it should be.
type ruleView struct {
	Name   string             `json:"name"`
	Kind   string             `json:"kind"`
	Health clusters.Health    `json:"health"`
	Since  string             `json:"since,omitempty"` // RFC 3339
	Ready  clusters.Readiness `json:"ready"`

	since time.Time
}

// viewOf sums up what an agent has written. It is pure.
func viewOf(context string, members []*v1alpha1.Cluster, rules []*v1alpha1.ResourceSyncRule) groupView {
	v := groupView{Context: context, Members: []memberView{}, Unready: []ruleView{}, Problems: []string{}}
	var unknown []string
	note := func(h clusters.Health, format string, args ...any) {
		v.Health = max(v.Health, h)
		switch text := fmt.Sprintf(format, args...); h {
		case clusters.Unhealthy:
			v.Problems = append(v.Problems, text)
		case clusters.Unknown:
			unknown = append(unknown, text)
		case clusters.Healthy:
		}
	}
	lags := lagsOf(rules)
	for _, c := range members {
		if c.Spec.ClusterID == "" {
			continue // it is only listed
		}
		m := memberOf(c, lags[string(c.Spec.ClusterID)])
		v.Members = append(v.Members, m)
		if c.Status.Type == v1alpha1.ClusterTypeLocal {
			v.Cluster, v.ClusterID = m.Name, m.ClusterID
		}
		if m.Health != clusters.Healthy {
			note(m.Health, "cluster %s: %s", m.Name, m.Message)
		}
	}
	if v.Cluster == "" {
		note(clusters.Unknown, "no agent of this cluster has written its status yet: is it running?")
	}
	v.Rules.Total = len(rules)
	for _, rule := range rules {
		r := ruleViewOf(rule)
		v.Rules.add(rule, r.Health)
		if r.Health != clusters.Healthy {
			v.Unready = append(v.Unready, r)
			note(r.Health, "rule %s: %s: %s", r.Name, r.Ready.Reason, r.Ready.Message)
		}
	}
	v.Problems = append(v.Problems, unknown...)
	return v
}

func (n *ruleCounts) add(rule *v1alpha1.ResourceSyncRule, h clusters.Health) {
	st := rule.Status
	n.Matched, n.Synced, n.Failed, n.Conflicts = n.Matched+st.Matched, n.Synced+st.Synced, n.Failed+st.Failed, n.Conflicts+st.Conflicts
	if h == clusters.Healthy {
		n.Ready++
	}
}

// lagsOf is the longest lag of each source over all rules.
func lagsOf(rules []*v1alpha1.ResourceSyncRule) map[string]time.Duration {
	out := map[string]time.Duration{}
	for _, rule := range rules {
		for _, src := range rule.Status.Sources {
			if src.Lag != nil {
				out[string(src.ClusterID)] = max(out[string(src.ClusterID)], src.Lag.Duration)
			}
		}
	}
	return out
}

func memberOf(c *v1alpha1.Cluster, lag time.Duration) memberView {
	m, line := asMember(c), asClusterLine(c)
	out := memberView{
		Name: m.Name, ClusterID: m.ClusterID, Type: m.Type, State: m.State, Since: m.Since, Status: line.Status,
		Synced: line.Synced, Version: line.Version, since: m.since, lag: lag,
	}
	if lag > 0 {
		out.Lag = lag.String()
	}
	out.Health, out.Message = clusters.MemberHealth(c)
	return out
}

func ruleViewOf(rule *v1alpha1.ResourceSyncRule) ruleView {
	health, ready, since := clusters.RuleHealth(rule)
	out := ruleView{Name: rule.Name, Kind: rule.Spec.GVK.Schema().GroupKind().String(), Health: health, Ready: ready, since: since}
	if !since.IsZero() {
		out.Since = since.UTC().Format(time.RFC3339)
	}
	return out
}
