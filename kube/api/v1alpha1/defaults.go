// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"cmp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// SourceDeletion is the deletionPolicy, with its default.
func (s *ResourceSyncRuleSpec) SourceDeletion() DeletionPolicy {
	return cmp.Or(s.DeletionPolicy, DeletionDelete)
}

// RuleDeletion is the ruleDeletionPolicy, with its default.
func (s *ResourceSyncRuleSpec) RuleDeletion() DeletionPolicy {
	return cmp.Or(s.RuleDeletionPolicy, DeletionOrphan)
}

// Schema is the kind as the Kubernetes libraries name it.
func (g GroupVersionKind) Schema() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: g.Group, Version: g.Version, Kind: g.Kind}
}

// Over is base with the parts that g names put in their place.
func (g GroupVersionKind) Over(base schema.GroupVersionKind) schema.GroupVersionKind {
	return schema.GroupVersionKind{
		Group:   cmp.Or(g.Group, base.Group),
		Version: cmp.Or(g.Version, base.Version),
		Kind:    cmp.Or(g.Kind, base.Kind),
	}
}

// Key is the name and namespace that the entry selects by, from either form. Where both forms name one
// and differ (which admission refuses), objectKey wins.
func (m *SyncRuleMatch) Key() ObjectKey {
	var key ObjectKey
	if m.ObjectKey != nil {
		key = *m.ObjectKey
	}
	return ObjectKey{Name: cmp.Or(key.Name, m.Name), Namespace: cmp.Or(key.Namespace, m.Namespace)}
}

// SelectsNothing says that the entry names nothing to select by. Admission refuses such an entry; a
// rule that reached the agent on another way is checked with this and must not be read as "everything".
func (m *SyncRuleMatch) SelectsNothing() bool {
	return m.Key() == (ObjectKey{}) && len(m.Namespaces) == 0 && len(m.Content) == 0 &&
		!selectsByLabels(m.Labels) && !selectsByAnnotations(m.Annotations)
}

// selectsByLabels is false where one of the selectors, which are ORed, is empty and so matches all.
func selectsByLabels(selectors []metav1.LabelSelector) bool {
	for _, s := range selectors {
		if len(s.MatchLabels) == 0 && len(s.MatchExpressions) == 0 {
			return false
		}
	}
	return len(selectors) > 0
}

func selectsByAnnotations(selectors []AnnotationSelector) bool {
	for _, s := range selectors {
		if len(s.MatchAnnotations) == 0 && len(s.MatchExpressions) == 0 {
			return false
		}
	}
	return len(selectors) > 0
}

// Mode is the override's type, with its default.
func (o *Override) Mode() OverrideType {
	return cmp.Or(o.Type, OverrideReplace)
}

// TunnelMode is the mode of the tunnel, with its default; also for a cluster that says nothing of the mesh.
func (s *ClusterSpec) TunnelMode() TunnelMode {
	if s.Mesh == nil {
		return TunnelAuto
	}
	return cmp.Or(s.Mesh.Tunnel, TunnelAuto)
}
