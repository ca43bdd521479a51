// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package syncrules

import (
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// namespacesAlone says that the entry selects by nothing but namespaces. Those are ignored for objects outside
// namespaces, so for such an object it selects by nothing, which must not be read as everything.
func (m *matcher) namespacesAlone() bool {
	return len(m.namespaces) > 0 && m.name == "" && m.namespace == "" && len(m.labels)+len(m.annotations)+len(m.content) == 0
}

// CheckClusterScoped is the error, naming each field, of a rule about a kind that is known to be outside
// namespaces: entries that select by namespaces alone select by nothing.
func (r *Rule) CheckClusterScoped() error {
	var errs field.ErrorList
	for i := range r.clauses {
		for j := range r.clauses[i].entries {
			if r.clauses[i].entries[j].namespacesAlone() {
				errs = append(errs, field.Required(field.NewPath("spec", "rules").Index(i).Child("match").Index(j),
					"must select by something beside namespaces: objects of this kind are outside them; leave match out to select every object of the kind"))
			}
		}
	}
	return errs.ToAggregate()
}

// ClusterScopes are Scopes for a kind outside namespaces.
func (r *Rule) ClusterScopes() []Scope {
	return r.scopes(func(m *matcher) []string {
		if m.namespace != "" {
			return nil // such an object has none
		}
		return []string{""}
	})
}
