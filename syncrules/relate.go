// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package syncrules

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// Relation is what a rule says about the objects of one cluster in another one.
type Relation uint8

const (
	// Excludes: it asks for none, and copies of it are released.
	Excludes Relation = iota
	// Unusable: the rule cannot be used here. Copies stay as they are.
	Unusable
	// Unclear: what decides on it is not known. Copies stay as they are.
	Unclear
	// Stopped: it asks for them, and copies stay as they are all the same. What the source has should be known.
	Stopped
	// Asks: it asks for them.
	Asks
)

// Between is what a relation depends on.
type Between struct {
	// Labels are those of the Cluster object that copies would be in, if LabelsKnown.
	Labels      map[string]string
	LabelsKnown bool
	// From is what people call the cluster of the sources. Features are its ClusterFeatures, if FeaturesKnown.
	From          string
	Features      []*v1alpha1.ClusterFeature
	FeaturesKnown bool
}

// Relate says whether the rule copies from one cluster to another, and why not. Agents decide by it, and explanations
// say it.
func (r *Rule) Relate(b Between) (rel Relation, why string) {
	switch {
	case r.HasTargets() && !b.LabelsKnown:
		return Unclear, "the labels of this cluster are not known yet"
	case r.HasTargets() && !r.Targets(b.Labels):
		return Excludes, "rule " + r.name + ": " + r.ExplainTargets(b.Labels).String()
	case r.HasFeatures() && !b.FeaturesKnown:
		return Unclear, "the features of cluster " + b.From + " are not known"
	case r.HasFeatures() && !r.FeaturesMatch(b.Features):
		for _, v := range r.ExplainFeatures(b.Features) {
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

// UnusableText says that a rule cannot be used, and why. ClashText says that it is about another version of a kind than an
// older rule, by which objects of the kind are read.
func UnusableText(rule string, err error) string {
	return "rule " + rule + " cannot be used: " + err.Error()
}

// ClashText is explained at UnusableText.
func ClashText(want schema.GroupVersionKind, older string) string {
	return fmt.Sprintf("it is about version %s of %s, an older rule about %s; use one version for all", want.Version, want.GroupKind(), older)
}
