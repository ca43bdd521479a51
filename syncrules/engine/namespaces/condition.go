// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package namespaces

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roster-mesh/roster/syncrules/engine/problem"
	"github.com/roster-mesh/roster/syncrules/engine/rights"
)

// Condition is about a rule that cannot know which namespaces it selects, and why.
func Condition(err error, errors problem.Reader) metav1.Condition {
	out := metav1.Condition{Status: metav1.ConditionFalse}
	switch {
	case err == nil:
		out.Status, out.Reason, out.Message = metav1.ConditionUnknown, problem.ReasonStarting, "the labels of the namespaces here are on their way"
	case errors.Class(err) == problem.Forbidden:
		out.Reason = problem.ReasonMissingPermission
		out.Message = "spec.targetNamespaces: " + rights.NamespacesText() + "; all copies stay where they are until then"
	default:
		out.Reason, out.Message = problem.ReasonLocalUnreachable, "the namespaces here cannot be watched: "+err.Error()
	}
	return out
}
