// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package problem

import "github.com/roster-mesh/roster/kube/api/v1alpha1"

// NextStep says what to do about copies that have a reason, "" where their text says it.
func NextStep(reason string) string {
	switch reason {
	case ReasonNamespaceMissing:
		return "create it, and the copies follow at once, or set createNamespace in the rule"
	case ReasonNamespaceLimit:
		return "create the others yourself, and the copies follow at once, or delete those that are not needed any more"
	case ReasonNamespaceTerminating:
		return "the copies follow when it is there again"
	case ReasonMissingPermission:
		return "add a ClusterRole here with the label " + v1alpha1.LabelControllerAggregated + "=true, or for Secrets a Role in each namespace"
	case ReasonKindUnknown:
		return "install its CRD here"
	case ReasonTooManyCopies:
		return "delete copies that no agent maintains (agentctl orphans list), narrow what the rule matches, or raise the memory limit of the agent here; " +
			"if agentctl members --tree shows clusters that nobody knows, remove the one that admitted them"
	case ReasonImmutableField:
		return "delete the copy, it is made anew at once"
	case ReasonObjectTooLarge:
		return "make it smaller at the source, or leave it out of the rule"
	case ReasonAdmissionRefused:
		return "change what refuses it here, or leave the object out of the rule; it is tried again"
	case ReasonQuotaExceeded:
		return "raise the quota or make room; it is tried again"
	case ReasonInvalidObject:
		return "the API server here has other rules for the kind than the source's, or a mutation made it so"
	case ReasonSchemaMismatch:
		return "install the source's version of the CRD here, or let the rule remove the field (mutations.overrides)"
	}
	return ""
}
