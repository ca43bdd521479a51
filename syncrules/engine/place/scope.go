// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package place

import (
	"iter"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// Scope is one watch. Rules that need the same scope share the watch.
type Scope struct {
	GVK           schema.GroupVersionKind
	Namespace     string // "" for all; ignored for kinds outside namespaces
	LabelSelector string
	FieldSelector string
}

// Copies is the scope of all copies of a kind, in a namespace or, with "", everywhere.
func Copies(gvk schema.GroupVersionKind, namespace string) Scope {
	return Scope{GVK: gvk, Namespace: namespace, LabelSelector: v1alpha1.LabelOwnerClusterID}
}

// WithoutCopies is the scope without what carries the owner label: of those, a cluster has one for each object of
// every other cluster, and none is a source.
func (s Scope) WithoutCopies() Scope {
	only := "!" + v1alpha1.LabelOwnerClusterID
	if s.LabelSelector != "" {
		only += "," + s.LabelSelector
	}
	s.LabelSelector = only
	return s
}

// Covers says whether objects of a namespace are in the scope; "" stands for a kind outside namespaces.
func (s Scope) Covers(namespace string) bool {
	return s.Namespace == "" || namespace == "" || s.Namespace == namespace
}

// Holds says that an API server which answers truly may return the object for the scope.
func (s Scope) Holds(obj *unstructured.Unstructured) bool {
	return obj.GroupVersionKind() == s.GVK && obj.GetName() != "" && (s.Namespace == "" || obj.GetNamespace() == s.Namespace)
}

// Sorted are scopes by kind and namespace.
func Sorted(scopes iter.Seq[Scope]) []Scope {
	return slices.SortedFunc(scopes, func(a, b Scope) int {
		return strings.Compare(a.GVK.String()+"|"+a.Namespace, b.GVK.String()+"|"+b.Namespace)
	})
}

// Namespaces names, for people, the namespaces that scopes are in.
func Namespaces(scopes []Scope) string {
	var names []string
	for _, s := range scopes {
		if s.Namespace == "" {
			return "all namespaces"
		}
		if !slices.Contains(names, s.Namespace) {
			names = append(names, s.Namespace)
		}
	}
	return "namespace " + strings.Join(names, ", ")
}
