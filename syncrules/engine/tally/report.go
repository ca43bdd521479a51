// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package tally

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// ReasonSourceUnreachable is that of a rule of which a source is not reached.
const ReasonSourceUnreachable = "SourceUnreachable"

// SameReport compares but for what alone is not worth a write: the lag, and why a source is not reached of which there is nothing, since it
// is one that somebody may invent, and tries to reach it may fail in changing ways.
func SameReport(a, b v1alpha1.ResourceSyncRuleStatus) bool {
	a, b = worthAWrite(a), worthAWrite(b)
	return equality.Semantic.DeepEqual(a, b)
}

func worthAWrite(in v1alpha1.ResourceSyncRuleStatus) v1alpha1.ResourceSyncRuleStatus {
	in.Sources, in.Conditions = slices.Clone(in.Sources), slices.Clone(in.Conditions)
	for i := range in.Sources {
		s := &in.Sources[i]
		if s.Lag = nil; !s.Watching && s.Matched == 0 && s.Failed == 0 {
			s.Message = ""
		}
	}
	for i := range in.Conditions {
		if c := &in.Conditions[i]; c.Reason == ReasonSourceUnreachable {
			c.Message = ""
		}
	}
	return in
}
