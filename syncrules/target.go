// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package syncrules

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

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

// TargetScope is where copies of a rule may be: a kind and a namespace, "" for all of them. For a kind that
// is not in namespaces the namespace means nothing.
type TargetScope struct {
	GVK       schema.GroupVersionKind
	Namespace string
}

// TargetScopes are the smallest scopes that hold every copy that the rule can make, sorted, without duplicates.
func (r *Rule) TargetScopes() []TargetScope {
	if len(r.clauses) == 0 {
		return nil
	}
	var out []TargetScope
	namespaces := r.targetNamespaces()
	for _, gvk := range r.TargetKinds() {
		for _, ns := range namespaces {
			out = append(out, TargetScope{gvk, ns})
		}
	}
	slices.SortFunc(out, func(a, b TargetScope) int {
		return cmp.Or(cmp.Compare(a.GVK.String(), b.GVK.String()), cmp.Compare(a.Namespace, b.Namespace))
	})
	return slices.Compact(out)
}

// TargetKinds are the kinds that copies may be of, each once: the source's, and what clauses make of it. Of
// several clauses that match an object the last one wins, so a clause that matches everything hides the ones
// before it.
func (r *Rule) TargetKinds() []schema.GroupVersionKind {
	var out []schema.GroupVersionKind
	hidden := false
	for _, c := range slices.Backward(r.clauses) {
		if c.kind != (v1alpha1.GroupVersionKind{}) && !hidden {
			out = append(out, c.kind.Over(r.gvk))
			hidden = len(c.entries) == 0
		}
	}
	if !hidden && slices.ContainsFunc(r.clauses, func(c clause) bool { return c.kind == (v1alpha1.GroupVersionKind{}) }) {
		out = append(out, r.gvk)
	}
	slices.Reverse(out)
	var unique []schema.GroupVersionKind
	for _, gvk := range out {
		if !slices.Contains(unique, gvk) {
			unique = append(unique, gvk)
		}
	}
	return unique
}

// targetNamespaces are the namespaces that copies may be in; "" alone for all of them.
func (r *Rule) targetNamespaces() []string {
	var out []string
	hidden := false
	for _, c := range slices.Backward(r.clauses) {
		for _, o := range slices.Backward(c.overrides) {
			if o.part != partNamespace || hidden {
				continue
			}
			namespace, constant := o.constantText()
			if !constant || namespace == "" {
				return []string{""}
			}
			out = append(out, namespace)
			hidden = len(c.entries) == 0
		}
	}
	if !hidden && !slices.ContainsFunc(r.clauses, func(c clause) bool { return !c.movesNamespace() }) {
		hidden = true // whichever of them an object matches
	}
	if !hidden {
		for _, s := range r.Scopes() {
			out = append(out, s.Namespace)
		}
	}
	slices.Sort(out)
	if out = slices.Compact(out); slices.Contains(out, "") {
		return []string{""}
	}
	return out
}

// Moves says that a copy may be in another place than its source: of another kind, name or namespace. Where it
// is not, Target is the source's own place and need not be asked.
func (r *Rule) Moves() bool { return r.moves }

func (c *clause) moves(base schema.GroupVersionKind) bool {
	return c.kind.Over(base) != base ||
		slices.ContainsFunc(c.overrides, func(o override) bool { return o.part == partName || o.part == partNamespace })
}

func (c *clause) movesNamespace() bool {
	return slices.ContainsFunc(c.overrides, func(o override) bool { return o.part == partNamespace })
}

// Target is the place of the copy that this rule alone makes of a source which matches it. Several rules whose
// targets are the same place make one copy together.
func (r *Rule) Target(source *unstructured.Unstructured, in Input) (Place, error) {
	place := PlaceOf(source)
	if !r.moves {
		return place, nil
	}
	return r.target(&subject{obj: source}, newRendering(source, in))
}

// PlaceTells says that the place of a Secret's copy depends on what the Secret holds: it is another one, or none, for a
// Secret that is the same but empty.
func (r *Rule) PlaceTells(source *unstructured.Unstructured, in Input, at Place) bool {
	if !r.moves || source.GroupVersionKind().GroupKind() != (schema.GroupKind{Kind: "Secret"}) {
		return false
	}
	empty := &unstructured.Unstructured{Object: maps.Clone(source.Object)}
	delete(empty.Object, "data")
	delete(empty.Object, "stringData")
	other, err := r.target(&subject{obj: source}, newRendering(empty, in)) // selected as it is
	return err != nil || other != at
}

// target asks only the mutations that a place depends on. It reads the source alone, so that the place does not
// depend on what other mutations and other rules do.
func (r *Rule) target(o *subject, x *rendering) (Place, error) {
	from := PlaceOf(x.source)
	place := from
	for i := range r.clauses {
		c := &r.clauses[i]
		if !c.match(o) {
			continue
		}
		if c.kind != (v1alpha1.GroupVersionKind{}) {
			place.GroupVersionKind = c.kind.Over(r.gvk)
		}
		for j := range c.overrides {
			if err := c.overrides[j].place(r, x, &place); err != nil {
				return Place{}, err
			}
		}
	}
	if x.in.Namespaced != nil {
		namespaced, err := x.in.Namespaced(place.GroupVersionKind)
		if known := err == nil; known && !namespaced {
			place.Namespace = ""
		} else if known && place.Namespace == "" {
			return Place{}, fmt.Errorf("%w: rule %s: a %s is in a namespace, and the source is in none: set one with an override of /metadata/namespace", ErrOverride, r.name, place.Kind)
		}
	}
	return place, nil
}

// place applies an override of the name or the namespace.
func (o *override) place(r *Rule, x *rendering, place *Place) error {
	if o.part != partName && o.part != partNamespace {
		return nil
	}
	if o.remove {
		place.Namespace = ""
		return nil
	}
	v, err := o.value(x)
	if err != nil {
		return o.failed(r, err)
	}
	text, err := o.asPlace(v)
	if err != nil {
		return o.failed(r, err)
	}
	if o.part == partName {
		place.Name = text
	} else {
		place.Namespace = text
	}
	return nil
}
