// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package syncrules

import (
	"cmp"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// Input is what a copy depends on besides its source and the rules.
type Input struct {
	// Owner is the clusterID of the origin.
	Owner string
	// Cluster and LocalCluster are the Cluster objects of the origin and of this cluster, for templates. A rule
	// that ReadsClusters cannot be rendered without them.
	Cluster, LocalCluster *v1alpha1.Cluster
	// Namespaced says whether a kind is namespaced in this cluster. If it is nil or returns an error, a copy is in a
	// namespace if its source is.
	Namespaced func(schema.GroupVersionKind) (bool, error)
	// Into is the namespace of the copy, for rules with a FanOut.
	Into string
}

// TargetScope is where copies of a rule may be: a kind and a namespace, "" for all namespaces. For a cluster-scoped kind
// the namespace has no meaning.
type TargetScope struct {
	GVK       schema.GroupVersionKind
	Namespace string
}

// KindsToLearn are the kinds of which it must be known whether they are in namespaces: those of the copies where the rule may move them, and that of
// its sources where it names namespaces.
func (r *Rule) KindsToLearn() (out []schema.GroupVersionKind) {
	if slices.ContainsFunc(r.Scopes(), func(s Scope) bool { return s.Namespace != "" }) {
		out = append(out, r.Kind())
	}
	if r.Moves() {
		for _, t := range r.TargetScopes() {
			if !slices.Contains(out, t.GVK) {
				out = append(out, t.GVK)
			}
		}
	}
	return out
}

// TargetScopes returns the smallest scopes that contain every copy that the rule can make, sorted, without duplicates.
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

// TargetKinds returns the kinds that copies may have, without duplicates: that of the source, and those that clauses set. The
// last clause that matches an object wins, so one that matches everything hides those before it.
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

// targetNamespaces returns the namespaces that copies may be in; only "" for all namespaces.
func (r *Rule) targetNamespaces() []string {
	var out []string
	hidden := false
	if r.fanOut != nil {
		return []string{""}
	}
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
		hidden = true // every clause sets one, so it does not matter which of them matches
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

// Moves says that a copy may be in another place than its source: it has another kind, name or namespace. Otherwise Target
// is always the place of the source.
func (r *Rule) Moves() bool { return r.moves }

func (c *clause) moves(base schema.GroupVersionKind) bool {
	return c.kind.Over(base) != base ||
		slices.ContainsFunc(c.overrides, func(o override) bool { return o.part == partName || o.part == partNamespace })
}

func (c *clause) movesNamespace() bool {
	return slices.ContainsFunc(c.overrides, func(o override) bool { return o.part == partNamespace })
}

// Target returns the place of the copy that this rule makes of a source that matches it. Several rules whose targets are the
// same place make one copy together.
func (r *Rule) Target(source *unstructured.Unstructured, in Input) (Place, error) {
	place := PlaceOf(source)
	if !r.moves {
		return place, nil
	}
	return r.target(&subject{obj: source}, newRendering(source, in))
}

// target applies only the mutations that set the place. It reads only the source, so that the place does not depend on other
// mutations and other rules.
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
	if r.fanOut != nil {
		place.Namespace = x.in.Into
	}
	if x.in.Namespaced != nil {
		namespaced, err := x.in.Namespaced(place.GroupVersionKind)
		if known := err == nil; known && !namespaced {
			place.Namespace = ""
		} else if known && place.Namespace == "" {
			return Place{}, fmt.Errorf("%w: rule %s: a %s is namespaced, and the source is cluster-scoped: set a namespace with an override of /metadata/namespace", ErrOverride, r.name, place.Kind)
		}
	}
	return place, nil
}

// place applies an override of the name or the namespace to a place. It ignores other overrides.
func (o *override) place(r *Rule, x *rendering, place *Place) error {
	if o.part != partName && o.part != partNamespace {
		return nil
	}
	if o.remove {
		place.Namespace = ""
		return nil
	}
	v, err := o.value(x.forPlaces())
	var text string
	if err == nil {
		text, err = o.asPlace(v)
	}
	if err != nil && x.secret && o.program != nil {
		err = fmt.Errorf("%w; no template gets what a Secret holds for a name or namespace, which more people may see", err)
	}
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
