// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"k8s.io/apimachinery/pkg/labels"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/syncrules"
	"github.com/roster-mesh/roster/syncrules/consent"
)

// terms are what of another cluster takes effect here.
func (r *Rules) terms(id string) consent.Terms {
	return consent.TermsOf(r.options.Accept, r.options.Registry.ByID(id)...)
}

// Accepts reports whether the rules of another cluster are in force here.
func (r *Rules) Accepts(id string) bool { return r.terms(id).RefuseRules(id) == nil }

// setRule passes a rule to the engine: one of a cluster whose rules are not accepted is refused.
func (r *Rules) setRule(rule *v1alpha1.ResourceSyncRule) {
	var refused error
	if owner := syncrules.Owner(rule); owner != "" && owner != r.options.ClusterID && !isOrphan(rule) {
		refused = r.terms(owner).RefuseRules(r.options.Registry.Name(owner))
	}
	r.engine.RefuseRule(effectiveRule(rule), refused)
}

// AcceptChanged passes the rules of a cluster to the engine once more: what of it takes effect here may have changed. ""
// means all clusters. What has not changed costs nothing.
func (r *Rules) AcceptChanged(id string) {
	r.unsettled.mu.Lock()
	defer r.unsettled.mu.Unlock()
	all, err := r.options.Registry.Rules.List(labels.Everything())
	if err != nil {
		return // never: it is a cache
	}
	for _, rule := range all {
		owner := syncrules.Owner(rule)
		if _, waits := r.unsettled.owners[rule.Name]; !waits && owner != "" && (id == "" || id == owner) {
			r.setRule(rule)
		}
	}
}
