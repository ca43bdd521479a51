// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/cli"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// Health is how a member, a rule or the whole group is. Of two, the worse one is the larger.
type Health int

// The three healths.
const (
	Healthy   Health = iota
	Unknown          // cannot be told, or settles by itself
	Unhealthy        // there are problems
)

func (h Health) String() string { return [...]string{"healthy", "unknown", "problems"}[h] }

// MarshalText is what documents hold.
func (h Health) MarshalText() ([]byte, error) { return []byte(h.String()), nil }

// MemberHealth judges a cluster by what the agent here has written about it. The message says what is wrong, if anything.
func MemberHealth(c *v1alpha1.Cluster) (health Health, message string) {
	message = Message(c)
	if c.Status.State == v1alpha1.ClusterStateDisabled {
		return Healthy, message // somebody wants it so
	}
	for _, kind := range []string{v1alpha1.ConditionReady, v1alpha1.ConditionMember, v1alpha1.ConditionClustersSynced} {
		h := ConditionHealth(c, kind)
		if h == Unhealthy && kind == v1alpha1.ConditionClustersSynced && c.Status.Type == v1alpha1.ClusterTypeLocal {
			continue // that peers are not synced is said of each of them
		}
		health = max(health, h)
	}
	if cond := Condition(c, v1alpha1.ConditionLocalConflict); cond != nil && cond.Status == metav1.ConditionTrue {
		health, message = Unhealthy, cli.OneLine(cond.Message)
	}
	if health != Healthy && message == "" {
		message = "no agent has looked at the object yet"
	}
	return health, message
}

// ConditionHealth judges a cluster by one of its conditions, of which True is good.
func ConditionHealth(c *v1alpha1.Cluster, kind string) Health {
	switch cond := Condition(c, kind); {
	case cond != nil && cond.Status == metav1.ConditionTrue:
		return Healthy
	case cond != nil && cond.Status == metav1.ConditionFalse && !settles(cond.Reason):
		return Unhealthy
	}
	return Unknown
}

// settles says that a condition with this reason ends by itself, soon.
func settles(reason string) bool {
	return slices.Contains([]string{"CatchingUp", "Connecting", "Pending", "Progressing", "Starting"}, reason)
}

// RuleHealth judges a rule by what the agent here has written about it. since is when that changed; zero where it is not
// known.
func RuleHealth(rule *v1alpha1.ResourceSyncRule) (health Health, ready Readiness, since time.Time) {
	ready = ReadinessOf(rule)
	cond := meta.FindStatusCondition(rule.Status.Conditions, RuleReady)
	switch {
	case ready.Status == string(metav1.ConditionUnknown), ready.Status != string(metav1.ConditionTrue) && settles(ready.Reason):
		health = Unknown
	case ready.Status != string(metav1.ConditionTrue):
		health = Unhealthy
	}
	if clash := meta.FindStatusCondition(rule.Status.Conditions, RuleNameClash); clash != nil && clash.Status == metav1.ConditionTrue && health != Unhealthy {
		cond, health, ready = clash, Unhealthy, Readiness{Status: ready.Status, Reason: clash.Type, Message: cli.OneLine(clash.Message)}
	}
	if cond != nil {
		since = cond.LastTransitionTime.Time
	}
	return health, ready, since
}

// StuckSince is the last change of the condition; of a rule that nobody has looked at, its age.
func StuckSince(rule *v1alpha1.ResourceSyncRule, ready Readiness, changed time.Time) time.Time {
	created := rule.CreationTimestamp.Time
	if changed.IsZero() || ready.Reason == NotLookedAt && changed.Before(created) {
		return created
	}
	return changed
}
