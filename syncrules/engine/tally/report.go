// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package tally

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// SameReport compares but for the lag, which alone is not worth a write.
func SameReport(a, b v1alpha1.ResourceSyncRuleStatus) bool {
	without := func(in []v1alpha1.SourceStatus) []v1alpha1.SourceStatus {
		out := slices.Clone(in)
		for i := range out {
			out[i].Lag = nil
		}
		return out
	}
	a.Sources, b.Sources = without(a.Sources), without(b.Sources)
	return equality.Semantic.DeepEqual(a, b)
}
