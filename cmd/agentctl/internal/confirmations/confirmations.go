// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package confirmations tells what of a cluster waits until a person confirms it.
package confirmations

import (
	"regexp"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/clusters"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/syncrules"
)

// ReasonGuard is the reason of a rule that the deletion guard has stopped.
const ReasonGuard = "DeletionGuard"

// guarded is the number in the command of that reason. Agents of the release before name the annotation.
var guarded = regexp.MustCompile(`(?:` + regexp.QuoteMeta(syncrules.AnnotationConfirmDeletions) + `|--deletions)=([0-9]+)`)

// GuardedDeletions is how many deletions the agent asks a person to confirm; 0 for none.
func GuardedDeletions(ready clusters.Readiness) int {
	if ready.Reason != ReasonGuard {
		return 0
	}
	found := guarded.FindAllStringSubmatch(ready.Message, -1)
	if found == nil {
		return 0
	}
	n, err := strconv.Atoi(found[len(found)-1][1]) // the name of a cluster may come before
	if err != nil {
		return 0
	}
	return n
}

// WaitsForRestore says that a cluster publishes nothing until a person confirms that its API server was restored. Agents of
// the release before name the annotation.
func WaitsForRestore(own *v1alpha1.Cluster) bool {
	cond := clusters.Condition(own, v1alpha1.ConditionReady)
	return cond != nil && cond.Status != metav1.ConditionTrue &&
		(strings.Contains(cond.Message, v1alpha1.CommandConfirmRestore) || strings.Contains(cond.Message, v1alpha1.AnnotationConfirmRestore))
}
