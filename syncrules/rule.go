// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package syncrules

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/syncrules/fanout"
	"github.com/roster-mesh/roster/syncrules/how"
	"github.com/roster-mesh/roster/syncrules/where"
)

// Rule is a compiled ResourceSyncRule. It is immutable and safe for concurrent use.
type Rule struct {
	name         string
	generation   int64
	gvk          schema.GroupVersionKind
	features     []featureMatch
	clauses      []clause
	targets      *where.Selector  // nil: every cluster
	fanOut       *fanout.Selector // nil: each copy is in one namespace
	deletion     v1alpha1.DeletionPolicy
	ruleDeletion v1alpha1.DeletionPolicy
	paused       bool
	selection    string
	manner       how.Manner

	createNamespace bool
	moves           bool
}

// Name is the name of the ResourceSyncRule.
func (r *Rule) Name() string { return r.name }

// Generation is the generation of the spec that was compiled.
func (r *Rule) Generation() int64 { return r.generation }

// Kind is the kind that is read at the sources.
func (r *Rule) Kind() schema.GroupVersionKind { return r.gvk }

// CreatesNamespace says that the namespace of a copy is created if it is missing.
func (r *Rule) CreatesNamespace() bool { return r.createNamespace }

// Paused says that copies are frozen.
func (r *Rule) Paused() bool { return r.paused }

// Manner is how the rule deals with what is in the place of a copy.
func (r *Rule) Manner() how.Manner { return r.manner }

// Deletion is the policy for copies whose source is gone or does not match any more (deletionPolicy).
func (r *Rule) Deletion() v1alpha1.DeletionPolicy { return r.deletion }

// RuleDeletion is the policy for copies that no rule asks for any more (ruleDeletionPolicy).
func (r *Rule) RuleDeletion() v1alpha1.DeletionPolicy { return r.ruleDeletion }

// FanOut selects the namespaces that each object is copied into; nil where that is one.
func (r *Rule) FanOut() *fanout.Selector { return r.fanOut }

// HasTargets says that Targets depends on the local Cluster object.
func (r *Rule) HasTargets() bool { return r.targets != nil }

// Targets says whether copies are wanted in the cluster with this Cluster object; nil is one that is not known.
func (r *Rule) Targets(cluster *v1alpha1.Cluster) where.Answer { return r.targets.Wants(cluster) }

// HasFeatures says that FeaturesMatch depends on the ClusterFeatures of the source.
func (r *Rule) HasFeatures() bool { return len(r.features) > 0 }

// FeaturesMatch says whether a cluster with these features is a source: for each entry of clusterFeatureMatch it must have
// a feature that meets the whole entry.
func (r *Rule) FeaturesMatch(features []*v1alpha1.ClusterFeature) bool {
	for _, entry := range r.features {
		if !slices.ContainsFunc(features, entry.meets) {
			return false
		}
	}
	return true
}

type featureMatch struct {
	name   string
	labels labels.Selector
}

func (m featureMatch) meets(f *v1alpha1.ClusterFeature) bool {
	return f != nil && (m.name == "" || m.name == f.Spec.FeatureName) && m.labels.Matches(labels.Set(f.Labels))
}

// ReadsContent says that a copy may depend on any field of its source, not only on those that Trim keeps: the rule selects
// by content, a template reads other fields, or the status is copied.
func (r *Rule) ReadsContent() bool {
	return slices.ContainsFunc(r.clauses, func(c clause) bool {
		return c.syncStatus || slices.ContainsFunc(c.entries, func(m matcher) bool { return len(m.content) > 0 }) ||
			c.reads(func(o *override) bool { return o.readsContent })
	})
}

// ReadsClusters says that copies depend on Input.Cluster or Input.LocalCluster.
func (r *Rule) ReadsClusters() bool {
	return slices.ContainsFunc(r.clauses, func(c clause) bool {
		return c.reads(func(o *override) bool { return o.readsClusters })
	})
}

// Scope is what is watched at a source for a rule. The selectors only reduce what the server sends; Match is called all the
// same. An empty Namespace means all namespaces.
type Scope struct {
	Namespace     string
	LabelSelector string
	FieldSelector string
}

// Scopes returns the smallest scopes that contain everything that the rule matches: one for all namespaces, or one for each
// namespace that the rule names. A scope has selectors if it is for one match entry only. The result is sorted, and empty
// for a rule that selects nothing.
func (r *Rule) Scopes() []Scope { return r.scopes((*matcher).scopeNamespaces) }

func (r *Rule) scopes(namespacesOf func(*matcher) []string) []Scope {
	entries := map[string][]*matcher{} // by namespace, "" for all
	for i := range r.clauses {
		c := &r.clauses[i]
		if len(c.entries) == 0 {
			return []Scope{{}}
		}
		for j := range c.entries {
			m := &c.entries[j]
			for _, ns := range namespacesOf(m) {
				entries[ns] = append(entries[ns], m)
			}
		}
	}
	if all, ok := entries[""]; ok && len(entries) > 1 {
		for ns, more := range entries {
			if ns != "" {
				all = append(all, more...)
			}
		}
		entries = map[string][]*matcher{"": all}
	}
	scopes := make([]Scope, 0, len(entries))
	for ns, matchers := range entries {
		s := Scope{Namespace: ns}
		if len(matchers) == 1 {
			s.LabelSelector, s.FieldSelector = matchers[0].pushDown()
		}
		scopes = append(scopes, s)
	}
	slices.SortFunc(scopes, func(a, b Scope) int { return strings.Compare(a.Namespace, b.Namespace) })
	return scopes
}

// scopeNamespaces returns the namespaces that the entry can match in; only "" for all namespaces.
func (m *matcher) scopeNamespaces() []string {
	switch {
	case m.namespace != "" && len(m.namespaces) > 0 && !slices.Contains(m.namespaces, m.namespace):
		return nil // contradicts itself
	case m.namespace != "":
		return []string{m.namespace}
	case len(m.namespaces) > 0:
		return slices.Compact(slices.Sorted(slices.Values(m.namespaces)))
	}
	return []string{""}
}

// pushDown returns the selectors for list and watch requests.
func (m *matcher) pushDown() (labelSelector, fieldSelector string) {
	if len(m.labels) == 1 {
		labelSelector = m.labels[0].String()
	}
	if m.name != "" {
		fieldSelector = "metadata.name=" + m.name
	}
	return labelSelector, fieldSelector
}

// selector compiles a label selector. An absent or empty one selects everything.
func selector(s *metav1.LabelSelector) (labels.Selector, error) {
	if s == nil {
		return labels.Everything(), nil
	}
	return metav1.LabelSelectorAsSelector(s)
}
