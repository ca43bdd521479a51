// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"fmt"

	"github.com/roster-mesh/roster/agent/payload"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/syncrules"
)

// effectiveRule is a rule as the engine gets it: an orphan is paused.
func effectiveRule(rule *v1alpha1.ResourceSyncRule) *v1alpha1.ResourceSyncRule {
	if !isOrphan(rule) {
		return rule
	}
	paused := rule.DeepCopy()
	paused.Spec.Paused = true
	return paused
}

// isOrphan reports whether the owner of a rule is gone from the group.
func isOrphan(rule *v1alpha1.ResourceSyncRule) bool {
	return syncrules.Owner(rule) != "" && payload.Has(rule, v1alpha1.AnnotationOrphaned)
}

// orphanAdvice is the message of the condition Ready of an orphan.
func orphanAdvice(rule *v1alpha1.ResourceSyncRule) string {
	return fmt.Sprintf("cluster %s, which this rule is from, is not in the group any more, or deleted it while its rules were not accepted here: all copies stay as they are. Take the rule over (agentctl orphans adopt rsr/%s), or delete it (agentctl orphans delete rsr/%s)",
		syncrules.Owner(rule), rule.Name, rule.Name)
}
