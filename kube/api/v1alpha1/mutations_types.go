// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// Mutations change a copy after it was made from its source.
type Mutations struct {
	// annotations adds and removes annotations.
	// +optional
	Annotations *AnnotationMutations `json:"annotations,omitempty"`
	// labels adds and removes labels.
	// +optional
	Labels *LabelMutations `json:"labels,omitempty"`
	// groupVersionKind makes the copy an object of another kind; parts that are empty stay.
	// +optional
	GVK *GroupVersionKind `json:"groupVersionKind,omitempty"`
	// overrides replace or remove parts of the object, in order.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=128
	Overrides []Override `json:"overrides,omitempty"`
	// syncStatus copies the status as well.
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
type Override struct {
	// type is replace (which also adds) or remove. Empty means replace.
	// +optional
	Type OverrideType `json:"type,omitempty"`
	// path of the part, in the path language of github.com/cppforlife/go-patch: /spec/ports/name=http/port,
	// /items/-, /metadata/labels?/app.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Path string `json:"path"`
	// value is a text template with the Sprig text functions over .Object, .Cluster (the owner) and
	// .LocalCluster. It is not read for remove.
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
