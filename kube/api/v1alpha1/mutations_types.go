// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// Mutations change a copy after it was made from its source, in the order of these fields.
//
// +kubebuilder:validation:XValidation:rule=`has(self.syncStatus) && self.syncStatus || !has(self.overrides) || !self.overrides.exists(o, o.path in ["/status", "/status?"] || o.path.startsWith("/status/") || o.path.startsWith("/status?/"))`,message="a copy has a status only with syncStatus; without it no override can change one"
type Mutations struct {
	// annotations adds and removes annotations.
	// +optional
	Annotations *AnnotationMutations `json:"annotations,omitempty"`
	// labels adds and removes labels.
	// +optional
	Labels *LabelMutations `json:"labels,omitempty"`
	// groupVersionKind makes the copy an object of another kind; parts that are empty stay.
	// +optional
	// +kubebuilder:validation:XValidation:rule=`!(self.?group.orValue("") in ["clusterregistry.k8s.cisco.com", "clusterregistry.k8s.io"])`,message="clusters, rules and features spread by themselves; no rule may make them"
	GVK *GroupVersionKind `json:"groupVersionKind,omitempty"`
	// overrides replace or remove parts of the object, in order. Those of /metadata/name and
	// /metadata/namespace rename and move the copy.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=128
	Overrides []Override `json:"overrides,omitempty"`
	// syncStatus copies the status as well, as it is written to the status subresource.
	// +optional
	SyncStatus bool `json:"syncStatus,omitempty"`
}

// AnnotationMutations adds and removes annotations.
type AnnotationMutations struct {
	// add sets annotations.
	// +optional
	// +kubebuilder:validation:MaxProperties=128
	Add map[string]string `json:"add,omitempty"`
	// remove takes annotations away, by key.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=128
	// +kubebuilder:validation:items:MaxLength=317
	Remove []string `json:"remove,omitempty"`
}

// LabelMutations adds and removes labels.
type LabelMutations struct {
	// add sets labels.
	// +optional
	// +kubebuilder:validation:MaxProperties=128
	Add map[string]string `json:"add,omitempty"`
	// remove takes labels away, by key.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=128
	// +kubebuilder:validation:items:MaxLength=317
	Remove []string `json:"remove,omitempty"`
}

// Override replaces or removes one part of an object.
//
// +kubebuilder:validation:XValidation:rule=`self.path.startsWith("/") && !self.path.endsWith("/") && !self.path.contains("//")`,message="path must start with /, and none of its parts may be empty"
// +kubebuilder:validation:XValidation:rule=`!(self.path in ["/apiVersion", "/apiVersion?"] || self.path.startsWith("/apiVersion/") || self.path.startsWith("/apiVersion?/") || self.path in ["/kind", "/kind?"] || self.path.startsWith("/kind/") || self.path.startsWith("/kind?/"))`,message="use mutations.groupVersionKind to change the kind"
// +kubebuilder:validation:XValidation:rule=`!(self.path in ["/metadata", "/metadata?"] || self.path.startsWith("/metadata/") || self.path.startsWith("/metadata?/")) || self.path in ["/metadata/name", "/metadata/name?", "/metadata?/name", "/metadata?/name?", "/metadata/namespace", "/metadata/namespace?", "/metadata?/namespace", "/metadata?/namespace?"] || self.path.startsWith("/metadata/labels") || self.path.startsWith("/metadata?/labels") || self.path.startsWith("/metadata/annotations") || self.path.startsWith("/metadata?/annotations")`,message="of the metadata only name, namespace, labels and annotations can be changed"
// +kubebuilder:validation:XValidation:rule=`self.?type.orValue("") != "remove" || !(self.path in ["/metadata/name", "/metadata?/name", "/metadata/name?", "/metadata?/name?"])`,message="an object must have a name"
type Override struct {
	// type is replace (which also adds) or remove. Empty means replace.
	// +optional
	Type OverrideType `json:"type,omitempty"`
	// path of the part, in the path language of github.com/cppforlife/go-patch: /spec/ports/name=http/port,
	// /items/-, /metadata/labels?/app. What the path names must be there, but for parts from one that ends in ?.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Path string `json:"path"`
	// value is a text template with the Sprig text functions over .Object (the source), .Cluster (the owner)
	// and .LocalCluster. Functions that depend on the clock, on chance or on the machine are refused, and so
	// is printing a value that is not there. It is not read for remove.
	// +optional
	// +kubebuilder:validation:MaxLength=262144
	Value string `json:"value,omitempty"`
	// parseValue reads the rendered value as YAML instead of as a string.
	// +optional
	ParseValue bool `json:"parseValue,omitempty"`
}

// OverrideType says what an override does.
//
// +kubebuilder:validation:Enum=replace;remove
type OverrideType string

// The types of an override.
const (
	OverrideReplace OverrideType = "replace"
	OverrideRemove  OverrideType = "remove"
)
