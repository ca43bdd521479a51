// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package syncrules

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/syncrules/where"
)

// Relation says whether a rule copies the objects of one cluster to another one.
type Relation uint8

const (
	// Excludes means that the rule does not ask for them. Copies that it made are released.
	Excludes Relation = iota
	// Unusable means that the rule cannot be used here. Copies are frozen.
	Unusable
	// Refused means that this cluster does not let the rule be in force. Copies that no other rule offers are frozen.
	Refused
	// Unclear means that it is not known whether the rule asks for them. Copies are frozen.
	Unclear
	// Stopped means that the rule asks for them, and that copies are frozen. The source is watched nevertheless.
	Stopped
	// Asks means that the rule asks for them.
	Asks
)

// ClusterPair is what Relate must know about the clusters of a copy and of its source.
type ClusterPair struct {
	// To is the Cluster object of the cluster that copies would be in; nil if it is not known.
	To *v1alpha1.Cluster
	// From is the name of the sources' cluster for people. Features are its ClusterFeatures, if FeaturesKnown.
	From          string
	Features      []*v1alpha1.ClusterFeature
	FeaturesKnown bool
}

// Relate says whether the rule copies from one cluster to another, and if not, why. Agents and "agentctl rules explain" both
// use it.
func (r *Rule) Relate(pair ClusterPair) (rel Relation, why string) {
	switch answer, asks := r.targets.Explain(pair.To); {
	case answer == where.Unknown:
		return Unclear, "rule " + r.name + ": spec.targets: " + asks
	case answer == where.No:
		return Excludes, "rule " + r.name + ": spec.targets: " + asks
	case r.HasFeatures() && !pair.FeaturesKnown:
		return Unclear, "the features of cluster " + pair.From + " are not known"
	case r.HasFeatures() && !r.FeaturesMatch(pair.Features):
		for _, v := range r.ExplainFeatures(pair.Features) {
			if !v.Matched {
				why = v.String()
			}
		}
		return Excludes, "rule " + r.name + ": " + why
	case r.Paused():
		return Stopped, "rule " + r.name + " is paused"
	}
	return Asks, ""
}

// UnusableText says that a rule cannot be used, and why.
func UnusableText(rule string, err error) string {
	return "rule " + rule + " cannot be used: " + err.Error()
}

// ClashText says that a rule is about another version of a kind than an older rule. Objects of a kind are read in one
// version only.
func ClashText(want schema.GroupVersionKind, older, version string) string {
	return fmt.Sprintf("it is about version %s of %s, and rule %s, which is older, about %s: use one version in both", want.Version, want.GroupKind(), older, version)
}
