// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package rights

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/syncrules/engine/place"
)

// maxNamed is how many namespaces a text names.
const maxNamed = 8

// UpdateStatus is the verb update on the status, where the kind has that as a subresource.
const UpdateStatus = "update/status"

// Write are the verbs that copies of a kind need, and Read those that its sources do.
func Write() []string { return []string{"get", "list", "watch", "create", "update", "delete"} }

// Read is explained at Write.
func Read() []string { return []string{"get", "list", "watch"} }

// Lack is what a review found missing; the zero value is nothing.
type Lack struct {
	// Resource is the name that RBAC has for the kind.
	Resource schema.GroupResource
	Verbs    []string
	// Namespaces in which they are missing; none for all of them, and for kinds outside namespaces.
	Namespaces []string
	// User is as whom the API server knows the agent, "" where that was not asked.
	User string
}

func (l Lack) same(o Lack) bool {
	return l.Resource == o.Resource && l.User == o.User && slices.Equal(l.Verbs, o.Verbs) && slices.Equal(l.Namespaces, o.Namespaces)
}

// concerns says that something is missing in the scope, and not only where other rules make copies.
func (l Lack) concerns(s place.Scope) bool {
	return len(l.Namespaces) == 0 || slices.ContainsFunc(l.Namespaces, s.Covers)
}

func (l Lack) where() string {
	if len(l.Namespaces) == 0 {
		return ""
	}
	return " in namespace " + strings.Join(l.Namespaces[:min(len(l.Namespaces), maxNamed)], ", ")
}

// within is a lack of Secrets for scopes of one rule: what another rule needs in all namespaces is nothing to grant for this
// one, and what is granted in some of them is not enough for a rule about all.
func (l Lack) within(scopes []place.Scope, gvk schema.GroupVersionKind) Lack {
	var named []string
	for _, s := range scopes {
		switch {
		case !l.ofSecrets() || s.GVK != gvk:
		case s.Namespace == "":
			l.Namespaces = nil
			return l
		default:
			named = append(named, s.Namespace)
		}
	}
	if len(l.Namespaces) == 0 {
		l.Namespaces = slices.Compact(slices.Sorted(slices.Values(named)))
	}
	return l
}

// NamespacesText says that the agent may not read namespaces here, and how to grant it.
func NamespacesText() string {
	l := Lack{Resource: schema.GroupResource{Resource: "namespaces"}, Verbs: []string{"list", "watch"}}
	return fmt.Sprintf("the agent may not %s %s here; grant it with: %s", strings.Join(l.Verbs, ", "), l.Resource, l.clusterRole("read", v1alpha1.LabelControllerAggregated, l.Verbs))
}
