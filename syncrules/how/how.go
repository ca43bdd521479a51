// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package how

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// Manner is how a rule deals with what is there.
type Manner struct {
	// Observes says that the rule writes and deletes nothing, and tells what it would.
	Observes bool
	// Adopts says that it makes an object of this cluster the copy, if that cluster consents.
	Adopts bool
}

// Compile reads the fields of a rule that say it. path is that of the spec, for errors.
func Compile(path *field.Path, spec *v1alpha1.ResourceSyncRuleSpec) (Manner, field.ErrorList) {
	var errs field.ErrorList
	switch spec.Mode {
	case "", v1alpha1.ModeSync, v1alpha1.ModeObserve:
	default:
		errs = append(errs, field.NotSupported(path.Child("mode"), spec.Mode, []v1alpha1.RuleMode{v1alpha1.ModeSync, v1alpha1.ModeObserve}))
	}
	switch spec.ConflictPolicy {
	case "", v1alpha1.ConflictLeave, v1alpha1.ConflictAdopt:
	default:
		errs = append(errs, field.NotSupported(path.Child("conflictPolicy"), spec.ConflictPolicy, []v1alpha1.ConflictPolicy{v1alpha1.ConflictLeave, v1alpha1.ConflictAdopt}))
	}
	return Manner{Observes: spec.Mode == v1alpha1.ModeObserve, Adopts: spec.ConflictPolicy == v1alpha1.ConflictAdopt}, errs
}

// ObservesText says why a rule leaves a copy as it is that it has made, "" if it does not.
func (m Manner) ObservesText(rule string) string {
	if !m.Observes {
		return ""
	}
	return "rule " + rule + " only observes (spec.mode)"
}
