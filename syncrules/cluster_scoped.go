// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package syncrules

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// namespacesAlone says whether the entry selects by namespaces only. For cluster-scoped objects namespaces are ignored, so
// that nothing would be left to select by. That must not mean that it selects everything.
func (m *matcher) namespacesAlone() bool {
	return len(m.namespaces) > 0 && m.name == "" && m.namespace == "" && len(m.labels)+len(m.annotations)+len(m.content) == 0
}

// CheckClusterScoped returns an error, which names each field, if the rule has entries that select by namespaces only. It is
// for rules about a kind that is known to be cluster-scoped.
func (r *Rule) CheckClusterScoped() error {
	var errs field.ErrorList
	for i := range r.clauses {
		for j := range r.clauses[i].entries {
			if r.clauses[i].entries[j].namespacesAlone() {
				errs = append(errs, field.Required(field.NewPath("spec", "rules").Index(i).Child("match").Index(j),
					"must select by something besides namespaces: objects of this kind are cluster-scoped; leave match out to select every object of the kind"))
			}
		}
	}
	return errs.ToAggregate()
}

// CheckTargetNamespaces returns an error if the rule makes copies in several namespaces of a kind that is in none.
func (r *Rule) CheckTargetNamespaces(outside func(schema.GroupVersionKind) bool) error {
	for _, gvk := range r.TargetKinds() {
		if r.fanOut != nil && outside(gvk) {
			return field.Forbidden(field.NewPath("spec", "targetNamespaces"), "is for kinds that are in namespaces, and "+gvk.Kind+" is not")
		}
	}
	return nil
}

// ClusterScopes is Scopes for a cluster-scoped kind.
func (r *Rule) ClusterScopes() []Scope {
	return r.scopes(func(m *matcher) []string {
		if m.namespace != "" {
			return nil // no cluster-scoped object matches
		}
		return []string{""}
	})
}
