// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/syncrules"
	"github.com/roster-mesh/roster/syncrules/consent"
	"github.com/roster-mesh/roster/syncrules/skew"
)

// terms are what of another cluster takes effect here. The role is that of a pin: without one there is none.
func (r *Rules) terms(id string) consent.Terms {
	terms := consent.TermsOf(r.options.Accept, r.options.Registry.ByID(id)...)
	switch {
	case !r.options.Directory.Pinned(id):
		return terms.OfNoMember()
	case r.options.Edge(id):
		return terms.OfEdge()
	}
	return terms
}

// Accepts reports whether the rules of another cluster are in force here.
func (r *Rules) Accepts(id string) bool { return r.terms(id).RefuseRules(id) == nil }

// refusal is why a rule is not in force here, nil if it is: a rule that is not understood is not, nor one of a cluster whose
// rules are not accepted.
func (r *Rules) refusal(rule *v1alpha1.ResourceSyncRule) error {
	if err := skew.Refuse(rule); err != nil {
		return err
	}
	owner := syncrules.Owner(rule)
	if owner == "" || owner == r.options.ClusterID || isOrphan(rule) {
		return nil
	}
	return r.terms(owner).RefuseRules(r.options.Registry.Name(owner))
}

// setRuleLocked passes a rule to the engine.
func (r *Rules) setRuleLocked(rule *v1alpha1.ResourceSyncRule) {
	refused := r.refusal(rule)
	r.unsettled.passLocked(rule, refused)
	r.engine.SetRule(effectiveRule(rule), refused)
}

// AcceptChanged judges the rules of a cluster once more: what of it takes effect here may have changed. "" means all
// clusters. It judges what the engine has: the lister may have an older rule, or none, since a restore. A rule whose
// judgement stays the same costs no more than that.
func (r *Rules) AcceptChanged(id string) {
	r.unsettled.mu.Lock()
	defer r.unsettled.mu.Unlock()
	for _, p := range r.unsettled.passed {
		owner := syncrules.Owner(p.rule)
		if owner != "" && (id == "" || id == owner) && text(r.refusal(p.rule)) != p.refused {
			r.setRuleLocked(p.rule)
		}
	}
}

// text is what an error says, "" for none.
func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
