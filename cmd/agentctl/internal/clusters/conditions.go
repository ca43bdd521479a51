// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/cli"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// The conditions that agents set on a rule.
const (
	RuleReady     = "Ready"
	RuleOrphans   = "Orphans"
	RuleNameClash = "NameClash"
)

// NotLookedAt is the reason that no agent gave.
const NotLookedAt = "NotLookedAt"

// Condition is the condition of a Cluster of this type, or nil.
func Condition(c *v1alpha1.Cluster, kind string) *metav1.Condition {
	return meta.FindStatusCondition(c.Status.Conditions, kind)
}

// Explain is a condition as one line.
func Explain(c *metav1.Condition) string {
	text := fmt.Sprintf("%s=%s", c.Type, c.Status)
	if c.Reason != "" {
		text += " (" + c.Reason + ")"
	}
	if c.Message != "" {
		text += ": " + cli.OneLine(c.Message)
	}
	return text
}

// RemovedFrom says why a cluster is not in its group any more; "" while it is.
func RemovedFrom(own *unstructured.Unstructured) string {
	c, err := DecodeCluster(own)
	if err != nil {
		return ""
	}
	if cond := Condition(c, v1alpha1.ConditionReady); cond != nil && cond.Reason == v1alpha1.MemberRemoved {
		return cli.OneLine(cond.Message)
	}
	return ""
}

// Message is what is wrong with a cluster, if anything.
func Message(c *v1alpha1.Cluster) string {
	if c.Status.Message != "" {
		return cli.OneLine(c.Status.Message)
	}
	for _, kind := range []string{v1alpha1.ConditionReady, v1alpha1.ConditionClustersSynced, v1alpha1.ConditionMember} {
		if cond := Condition(c, kind); cond != nil && cond.Status != metav1.ConditionTrue {
			return Explain(cond)
		}
	}
	return ""
}

// Readiness is what the agent says of a rule; Status is Unknown while it has not looked at the present spec. Its JSON is
// stable.
type Readiness struct {
	Status  string `json:"status"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// ReadinessOf reads the condition Ready of a rule.
func ReadinessOf(rule *v1alpha1.ResourceSyncRule) Readiness {
	cond := meta.FindStatusCondition(rule.Status.Conditions, RuleReady)
	switch {
	case cond == nil:
		return Readiness{Status: "Unknown", Reason: NotLookedAt, Message: "no agent has looked at the rule yet; is the agent of this cluster running?"}
	case cond.ObservedGeneration != 0 && cond.ObservedGeneration < rule.Generation:
		return Readiness{Status: "Unknown", Reason: NotLookedAt, Message: "the agent has not looked at the last edit yet"}
	}
	return Readiness{Status: string(cond.Status), Reason: cond.Reason, Message: cli.OneLine(cond.Message)}
}

// OrphansOf is what the agent says of copies of a rule that nobody maintains; "" for none.
func OrphansOf(rule *v1alpha1.ResourceSyncRule) string {
	if cond := meta.FindStatusCondition(rule.Status.Conditions, RuleOrphans); cond != nil && cond.Status == metav1.ConditionTrue {
		return cli.OneLine(cond.Message)
	}
	return ""
}
