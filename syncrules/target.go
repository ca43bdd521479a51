// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package syncrules

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// Place is where an object is: its kind, namespace (empty outside namespaces) and name.
type Place struct {
	schema.GroupVersionKind
	Namespace, Name string
}

// PlaceOf is the place that an object says it is in.
func PlaceOf(obj *unstructured.Unstructured) Place {
	return Place{obj.GroupVersionKind(), obj.GetNamespace(), obj.GetName()}
}

// Input is what a copy depends on beside its source and the rules.
type Input struct {
	// Owner is the clusterID of the origin.
	Owner string
	// Cluster and LocalCluster are the Cluster objects of the origin and of this cluster, for templates. A rule
	// that ReadsClusters cannot be rendered without them.
	Cluster, LocalCluster *v1alpha1.Cluster
	// Namespaced says whether objects of a kind are in namespaces here; nil, or an error, means that a copy is
	// in one if its source is.
	Namespaced func(schema.GroupVersionKind) (bool, error)
}

// TargetScope is where copies of a rule may be: a kind and a namespace, "" for all of them.
type TargetScope struct {
	GVK       schema.GroupVersionKind
	Namespace string
}

// TargetScopes are the smallest scopes that hold every copy that the rule can make, sorted, without duplicates.
func (r *Rule) TargetScopes() []TargetScope {
	var out []TargetScope
	for _, s := range r.Scopes() {
		out = append(out, TargetScope{r.gvk, s.Namespace})
	}
	return out
}

// Moves says that a copy may be in another place than its source: of another kind, name or namespace. Where it
// is not, Target is the source's own place and need not be asked.
func (r *Rule) Moves() bool { return false }

// ReadsClusters says that copies depend on Input.Cluster or Input.LocalCluster.
func (r *Rule) ReadsClusters() bool { return false }

// Target is the place of the copy that this rule alone makes of a source which matches it. Several rules whose
// targets are the same place make one copy together.
func (r *Rule) Target(source *unstructured.Unstructured, in Input) (Place, error) {
	desired, err := Render([]*Rule{r}, source, in)
	if err != nil {
		return Place{}, err
	}
	return PlaceOf(desired), nil
}

// Source is the place that a copy was made from, as its marks tell. The version is that of the copy where the
// marks do not tell another.
func Source(copied *unstructured.Unstructured) Place { return PlaceOf(copied) }
