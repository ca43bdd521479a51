// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// How a member, a rule or the whole group is. Of two, the worse one is the larger.
type health int

const (
	healthy health = iota
	unclear        // cannot be told, or settles by itself
	broken
)

func (h health) String() string { return [...]string{"healthy", "unknown", "problems"}[h] }

// MarshalText is what documents hold.
func (h health) MarshalText() ([]byte, error) { return []byte(h.String()), nil } //nolint:unparam // as the interface is

// groupView is the group as the agent of one cluster sees it. Its JSON is stable: fields are only ever added.
type groupView struct {
	Context   string       `json:"context"`
	Cluster   string       `json:"cluster"`
	ClusterID string       `json:"clusterID"`
	Health    health       `json:"health"` // healthy, unknown or problems: the exit code says the same
	Members   []memberView `json:"members"`
	Rules     ruleCounts   `json:"rules"`
	Unready   []ruleView   `json:"rulesWithProblems"`
	Problems  []string     `json:"problems"` // one line each, worst first
}

type memberView struct {
	Name      string `json:"name"`
	ClusterID string `json:"clusterID"`
	Type      string `json:"type"`
	State     string `json:"state"`           // of its agent in the mesh
	Since     string `json:"since,omitempty"` // RFC 3339
	Status    string `json:"status"`          // of the Cluster object
	Synced    string `json:"synced"`
	Lag       string `json:"lag,omitempty"` // the longest that the last change of a rule took from there to here
	Version   string `json:"version"`
	Health    health `json:"health"`
	Message   string `json:"message"`

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
	Name   string    `json:"name"`
	Kind   string    `json:"kind"`
	Health health    `json:"health"`
	Since  string    `json:"since,omitempty"` // RFC 3339
	Ready  readiness `json:"ready"`

	since time.Time
}

// viewOf sums up what an agent has written. It is pure.
func viewOf(context string, clusters []*v1alpha1.Cluster, rules []*v1alpha1.ResourceSyncRule) groupView {
	v := groupView{Context: context, Members: []memberView{}, Unready: []ruleView{}, Problems: []string{}}
	var unknown []string
	note := func(h health, format string, args ...any) {
		v.Health = max(v.Health, h)
		switch text := fmt.Sprintf(format, args...); h {
		case broken:
			v.Problems = append(v.Problems, text)
		case unclear:
			unknown = append(unknown, text)
		case healthy:
		}
	}
	lags := lagsOf(rules)
	for _, c := range clusters {
		m := memberOf(c, lags[string(c.Spec.ClusterID)])
		v.Members = append(v.Members, m)
		if c.Status.Type == v1alpha1.ClusterTypeLocal {
			v.Cluster, v.ClusterID = m.Name, m.ClusterID
		}
		if m.Health != healthy {
			note(m.Health, "cluster %s: %s", m.Name, m.Message)
		}
	}
	if v.Cluster == "" {
		note(unclear, "no agent of this cluster has written its status yet: is it running?")
	}
	v.Rules.Total = len(rules)
	for _, rule := range rules {
		r := ruleViewOf(rule)
		v.Rules.add(rule, r.Health)
		if r.Health != healthy {
			v.Unready = append(v.Unready, r)
			note(r.Health, "rule %s: %s: %s", r.Name, r.Ready.Reason, r.Ready.Message)
		}
	}
	v.Problems = append(v.Problems, unknown...)
	return v
}

func (n *ruleCounts) add(rule *v1alpha1.ResourceSyncRule, h health) {
	st := rule.Status
	n.Matched, n.Synced, n.Failed, n.Conflicts = n.Matched+st.Matched, n.Synced+st.Synced, n.Failed+st.Failed, n.Conflicts+st.Conflicts
	if h == healthy {
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
		Synced: line.Synced, Version: line.Version, Message: line.Message, since: m.since, lag: lag,
	}
	if lag > 0 {
		out.Lag = lag.String()
	}
	if c.Status.State == v1alpha1.ClusterStateDisabled {
		return out // somebody wants it so
	}
	for _, kind := range []string{v1alpha1.ConditionReady, v1alpha1.ConditionMember, v1alpha1.ConditionClustersSynced} {
		cond := condition(c, kind)
		switch {
		case cond == nil, cond.Status == metav1.ConditionUnknown, settles(cond.Reason):
			if cond == nil || cond.Status != metav1.ConditionTrue {
				out.Health = max(out.Health, unclear)
			}
		case cond.Status == metav1.ConditionFalse:
			// Of its own cluster, that peers are not synced is said of each of them.
			if kind != v1alpha1.ConditionClustersSynced || c.Status.Type != v1alpha1.ClusterTypeLocal {
				out.Health = broken
			}
		}
	}
	if cond := condition(c, v1alpha1.ConditionLocalConflict); cond != nil && cond.Status == metav1.ConditionTrue {
		out.Health, out.Message = broken, oneLine(cond.Message)
	}
	if out.Health != healthy && out.Message == "" {
		out.Message = "no agent has looked at the object yet"
	}
	return out
}

// settles says that a condition with this reason ends by itself, soon.
func settles(reason string) bool {
	return slices.Contains([]string{"CatchingUp", "Connecting", "Pending", "Progressing", "Starting"}, reason)
}

func ruleViewOf(rule *v1alpha1.ResourceSyncRule) ruleView {
	out := ruleView{Name: rule.Name, Kind: kindText(rule.Spec.GVK.Schema().GroupKind()), Ready: readinessOf(rule)}
	cond := meta.FindStatusCondition(rule.Status.Conditions, conditionReady)
	switch {
	case out.Ready.Status == string(metav1.ConditionUnknown), out.Ready.Status != string(metav1.ConditionTrue) && settles(out.Ready.Reason):
		out.Health = unclear
	case out.Ready.Status != string(metav1.ConditionTrue):
		out.Health = broken
	}
	if clash := meta.FindStatusCondition(rule.Status.Conditions, conditionNameClash); clash != nil && clash.Status == metav1.ConditionTrue && out.Health != broken {
		cond, out.Health, out.Ready = clash, broken, readiness{Status: out.Ready.Status, Reason: clash.Type, Message: oneLine(clash.Message)}
	}
	if cond != nil && !cond.LastTransitionTime.IsZero() {
		out.since = cond.LastTransitionTime.Time
		out.Since = out.since.UTC().Format(time.RFC3339)
	}
	return out
}
