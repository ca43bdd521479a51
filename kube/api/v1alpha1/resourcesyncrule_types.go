// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// ResourceSyncRule says which objects of one kind are copied from the other clusters of the group
// into each cluster that the rule reaches, and how a copy differs from its source. A rule made in one
// cluster spreads to all.
//
// +genclient
// +genclient:nonNamespaced
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=resourcesyncrules,singular=resourcesyncrule,scope=Cluster,shortName=rsr
// +kubebuilder:printcolumn:name="Kind",type=string,JSONPath=`.spec.groupVersionKind.kind`,priority=1
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Matched",type=integer,JSONPath=`.status.matched`
// +kubebuilder:printcolumn:name="Synced",type=integer,JSONPath=`.status.synced`
// +kubebuilder:printcolumn:name="Failed",type=integer,JSONPath=`.status.failed`
// +kubebuilder:printcolumn:name="Conflicts",type=integer,JSONPath=`.status.conflicts`
// +kubebuilder:printcolumn:name="Drifted",type=integer,JSONPath=`.status.drifted`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,priority=1
type ResourceSyncRule struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says what is copied, and how.
	// +required
	Spec ResourceSyncRuleSpec `json:"spec"`
	// status is what the agent of this cluster did about the rule.
	// +optional
	Status ResourceSyncRuleStatus `json:"status,omitempty"`
}

// ResourceSyncRuleList is a list of ResourceSyncRules.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
type ResourceSyncRuleList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ResourceSyncRule `json:"items"`
}

// ResourceSyncRuleSpec says what is copied, and how.
//
// +kubebuilder:validation:XValidation:rule=`!has(self.targetNamespaces) || !self.?createNamespace.orValue(false)`,message="targetNamespaces selects namespaces that are there; it does not go with createNamespace"
// +kubebuilder:validation:XValidation:rule=`!has(self.targetNamespaces) || !has(self.rules) || !self.rules.exists(r, has(r.mutations) && has(r.mutations.overrides) && r.mutations.overrides.exists(o, o.path in ["/metadata/namespace", "/metadata/namespace?", "/metadata?/namespace", "/metadata?/namespace?"]))`,message="targetNamespaces says which namespaces copies are in; it does not go with an override of /metadata/namespace"
type ResourceSyncRuleSpec struct {
	// clusterFeatureMatch limits the sources: objects are copied only from clusters whose
	// ClusterFeatures meet every entry. Empty means from all clusters.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	ClusterFeatureMatches []ClusterFeatureMatch `json:"clusterFeatureMatch,omitempty"`

	// groupVersionKind is the kind that the rule is about. The group of core kinds is empty.
	// +required
	// +kubebuilder:validation:XValidation:rule=`size(self.?kind.orValue("")) > 0 && size(self.?version.orValue("")) > 0`,message="groupVersionKind needs version and kind; only the group may be empty, for core kinds"
	GVK GroupVersionKind `json:"groupVersionKind"`

	// rules select objects and change their copies. Without any, nothing is copied. An object that
	// several of them match gets all their mutations in order; the last one wins.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	Rules []SyncRule `json:"rules,omitempty"`

	// targets limits where copies are wanted: clusters whose own Cluster object the selector matches.
	// A cluster is labelled in that cluster, on its own Cluster object; a label that is put on the
	// Cluster object of another cluster is removed again. Absent means everywhere.
	// +optional
	Targets *ClusterSelector `json:"targets,omitempty"`

	// targetNamespaces makes a copy of each object in every namespace of a target cluster that the selector
	// matches, instead of one in the namespace of the object. A copy is deleted when its namespace does not match any
	// more (deletionPolicy). It is for kinds that are in namespaces.
	// +optional
	TargetNamespaces *NamespaceSelector `json:"targetNamespaces,omitempty"`

	// deletionPolicy says what becomes of a copy whose source was deleted or stopped matching: Delete
	// (the default) or Orphan.
	// +optional
	DeletionPolicy DeletionPolicy `json:"deletionPolicy,omitempty"`

	// ruleDeletionPolicy says what becomes of the copies when the rule is deleted, or edited so that
	// it no longer applies here: Delete or Orphan (the default).
	// +optional
	RuleDeletionPolicy DeletionPolicy `json:"ruleDeletionPolicy,omitempty"`

	// createNamespace creates the namespace of a copy where it is missing. Without it the copy waits
	// until somebody does.
	// +optional
	CreateNamespace bool `json:"createNamespace,omitempty"`

	// paused leaves all copies as they are until it is false again.
	// +optional
	Paused bool `json:"paused,omitempty"`

	// mode says what the rule does: Sync (the default) makes copies and keeps them up to date. Observe
	// writes and deletes nothing: the status tells which objects are not as the rule would have them.
	// Copies that the rule has made stay as they are.
	// +optional
	Mode RuleMode `json:"mode,omitempty"`

	// conflictPolicy says what becomes of an object of this cluster that has the name of a copy: Leave (the
	// default), or Adopt, which makes it the copy if the object has the annotation
	// local.cluster-registry.k8s.cisco.com/adopt with the name of the rule.
	// +optional
	ConflictPolicy ConflictPolicy `json:"conflictPolicy,omitempty"`
}

// ConflictPolicy says what becomes of an object that has the name of a copy.
//
// +kubebuilder:validation:Enum=Leave;Adopt
type ConflictPolicy string

// The conflict policies.
const (
	// ConflictLeave leaves it alone, and reports a conflict. No policy means the same.
	ConflictLeave ConflictPolicy = "Leave"
	// ConflictAdopt makes it the copy, with the consent of AnnotationAdopt.
	ConflictAdopt ConflictPolicy = "Adopt"
)

// RuleMode says whether a rule writes.
//
// +kubebuilder:validation:Enum=Sync;Observe
type RuleMode string

// The modes of a rule.
const (
	// ModeSync makes copies and keeps them up to date. No mode means the same.
	ModeSync RuleMode = "Sync"
	// ModeObserve only tells what ModeSync would do.
	ModeObserve RuleMode = "Observe"
)

// ClusterSelector selects clusters by what their own Cluster objects say. The fields are ANDed. While a cluster does not say
// what a field asks for, copies there stay as they are.
type ClusterSelector struct {
	metav1.LabelSelector `json:",inline"`
	// names are the clusters, by the name of their own Cluster object.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	Names []string `json:"names,omitempty"`
	// regions selects clusters with nodes in any of these regions (status.locality.regions).
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	Regions []string `json:"regions,omitempty"`
	// version selects clusters by the version of their API server (status.version): comparisons that are separated by commas
	// and must all be true, such as ">=1.34, <1.36". What a vendor adds to a version is not compared.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:Pattern=`^ *(=|!=|>|>=|<|<=)? *v?[0-9]{1,9}(\.[0-9]{1,9}){0,2} *(, *(=|!=|>|>=|<|<=)? *v?[0-9]{1,9}(\.[0-9]{1,9}){0,2} *)*$`
	Version string `json:"version,omitempty"`
	// providers selects clusters on the infrastructure of any of these providers (status.provider), such as amazon.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	Providers []string `json:"providers,omitempty"`
}

// NamespaceSelector selects namespaces by their labels.
//
// +kubebuilder:validation:XValidation:rule=`size(self.?matchLabels.orValue({})) > 0 || size(self.?matchExpressions.orValue([])) > 0`,message="targetNamespaces must select by matchLabels or matchExpressions"
// +kubebuilder:validation:XValidation:rule=`size(self.?matchLabels.orValue({})) + size(self.?matchExpressions.orValue([])) <= 64`,message="targetNamespaces may have at most 64 requirements"
type NamespaceSelector struct {
	metav1.LabelSelector `json:",inline"`
}

// DeletionPolicy says what becomes of a copy.
//
// +kubebuilder:validation:Enum=Delete;Orphan
type DeletionPolicy string

// The deletion policies.
const (
	// DeletionDelete deletes the copy.
	DeletionDelete DeletionPolicy = "Delete"
	// DeletionOrphan leaves the copy, marked as orphaned.
	DeletionOrphan DeletionPolicy = "Orphan"
)

// ClusterFeatureMatch selects clusters by a ClusterFeature that they have. The fields are ANDed.
//
// +kubebuilder:validation:XValidation:rule=`size(self.?featureName.orValue("")) > 0 || size(self.?matchLabels.orValue({})) > 0 || size(self.?matchExpressions.orValue([])) > 0`,message="a clusterFeatureMatch entry must select by featureName, matchLabels or matchExpressions"
type ClusterFeatureMatch struct {
	// featureName is the spec.featureName of the ClusterFeature.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	FeatureName string `json:"featureName,omitempty"`
	// matchLabels are labels that the ClusterFeature has.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	MatchLabels map[string]string `json:"matchLabels,omitempty"`
	// matchExpressions are requirements on the labels of the ClusterFeature.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	MatchExpressions []metav1.LabelSelectorRequirement `json:"matchExpressions,omitempty"`
}

// GroupVersionKind names a kind, or, in a mutation, the parts of one that change.
type GroupVersionKind struct {
	// group of the kind; empty for core kinds such as Secret.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Group string `json:"group,omitempty"`
	// version of the kind.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Version string `json:"version,omitempty"`
	// kind, such as Secret.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind,omitempty"`
}

// SyncRule selects objects and says how their copies differ from them.
type SyncRule struct {
	// match selects objects: an object is selected that any entry selects. Without match, or with an
	// empty one, every object of the kind is.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	Matches []SyncRuleMatch `json:"match,omitempty"`
	// mutations change the copies.
	// +optional
	Mutations Mutations `json:"mutations,omitempty"`
}

// SyncRuleMatch selects objects. The fields are ANDed. An entry that selects by nothing is refused: to
// copy every object of a kind, leave match out.
//
// An empty selector in labels or annotations selects everything, and the selectors of a list are ORed:
// such a list selects by nothing.
//
// +kubebuilder:validation:XValidation:rule=`size(self.?objectKey.?name.orValue("")) > 0 || size(self.?objectKey.?__namespace__.orValue("")) > 0 || size(self.?name.orValue("")) > 0 || size(self.?__namespace__.orValue("")) > 0 || size(self.?namespaces.orValue([])) > 0 || size(self.?content.orValue([])) > 0 || (size(self.?labels.orValue([])) > 0 && self.labels.all(s, size(s.?matchLabels.orValue({})) > 0 || size(s.?matchExpressions.orValue([])) > 0)) || (size(self.?annotations.orValue([])) > 0 && self.annotations.all(s, size(s.?matchAnnotations.orValue({})) > 0 || size(s.?matchExpressions.orValue([])) > 0))`,message="a match entry must select by something: objectKey, namespaces, labels, annotations or content; leave match out to select every object of the kind"
// +kubebuilder:validation:XValidation:rule=`self.?name.orValue("") in ["", self.?objectKey.?name.orValue("")] || self.?objectKey.?name.orValue("") == ""`,message="name and objectKey.name mean the same and must not differ"
// +kubebuilder:validation:XValidation:rule=`self.?__namespace__.orValue("") in ["", self.?objectKey.?__namespace__.orValue("")] || self.?objectKey.?__namespace__.orValue("") == ""`,message="namespace and objectKey.namespace mean the same and must not differ"
type SyncRuleMatch struct {
	// objectKey selects by name, by namespace, or one object by both.
	// +optional
	// +nullable
	ObjectKey *ObjectKey `json:"objectKey,omitempty"`
	// name means the same as objectKey.name.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`
	// namespace means the same as objectKey.namespace.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace,omitempty"`
	// namespaces selects objects in any of these namespaces. It is ignored for kinds that are not in
	// a namespace.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	Namespaces []string `json:"namespaces,omitempty"`
	// labels selects objects that any of these selectors matches.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	Labels []metav1.LabelSelector `json:"labels,omitempty"`
	// annotations selects objects whose annotations any of these selectors matches.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	Annotations []AnnotationSelector `json:"annotations,omitempty"`
	// content selects objects that have all of these values.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	Content []ContentSelector `json:"content,omitempty"`
}

// ObjectKey selects objects by name and namespace; an empty field selects any.
type ObjectKey struct {
	// name of the object.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`
	// namespace of the object.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace,omitempty"`
}

// AnnotationSelector selects objects by their annotations. The requirements are ANDed. Unlike the
// values of labels, those of annotations may be any string.
type AnnotationSelector struct {
	// matchAnnotations are annotations that the object has.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	MatchAnnotations map[string]string `json:"matchAnnotations,omitempty"`
	// matchExpressions are requirements on the annotations of the object.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	MatchExpressions []AnnotationSelectorRequirement `json:"matchExpressions,omitempty"`
}

// AnnotationSelectorRequirement is a requirement on one annotation.
type AnnotationSelectorRequirement struct {
	// key of the annotation.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	Key string `json:"key"`
	// operator is In, NotIn, Exists or DoesNotExist.
	// +required
	// +kubebuilder:validation:Enum=In;NotIn;Exists;DoesNotExist
	Operator metav1.LabelSelectorOperator `json:"operator"`
	// values that In and NotIn compare with.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=128
	Values []string `json:"values,omitempty"`
}

// ContentSelector selects objects that have a value in a place.
type ContentSelector struct {
	// key is the place of the value in the object, as a gjson path such as spec.ports.0.name.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Key string `json:"key"`
	// value is a string or an integer.
	// +required
	Value intstr.IntOrString `json:"value"`
}
