// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package rights

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

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
}

func (l Lack) same(o Lack) bool {
	return l.Resource == o.Resource && slices.Equal(l.Verbs, o.Verbs) && slices.Equal(l.Namespaces, o.Namespaces)
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

// grant is the command that a person with the right to do so can paste.
func (l Lack) grant(name, label string, verbs []string) string {
	for _, word := range []string{l.Resource.Resource, l.Resource.Group} {
		if word != "" && len(validation.IsDNS1123Subdomain(word)) > 0 {
			return "a ClusterRole with the label " + label + "=true" // the peer has it named so: no shell is to see that
		}
	}
	resources := l.Resource.Resource
	if i := slices.Index(verbs, UpdateStatus); i >= 0 {
		verbs, resources = slices.Delete(slices.Clone(verbs), i, i+1), resources+", "+resources+"/status"
	}
	return fmt.Sprintf(`kubectl apply -f - <<< '{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: roster-%s-%s, labels: {%s: "true"}}, rules: [{apiGroups: ["%s"], resources: [%s], verbs: [%s]}]}'`,
		name, l.Resource, label, l.Resource.Group, resources, strings.Join(verbs, ", "))
}

// NamespacesText says that the agent may not read namespaces here, and how to grant it.
func NamespacesText() string {
	l := Lack{Resource: schema.GroupResource{Resource: "namespaces"}, Verbs: []string{"list", "watch"}}
	return fmt.Sprintf("the agent may not %s %s here; grant it with: %s", strings.Join(l.Verbs, ", "), l.Resource, l.grant("read", v1alpha1.LabelControllerAggregated, l.Verbs))
}
