// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// ResourceSyncRuleStatus is what the agent of this cluster did about a rule.
type ResourceSyncRuleStatus struct {
	// observedGeneration is the generation of the spec that this status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// matched counts the objects that the rule selects at all sources. Like the other counts it is there when it is 0,
	// for tables.
	// +optional
	Matched int32 `json:"matched"`
	// synced counts the copies that are as they should be.
	// +optional
	Synced int32 `json:"synced"`
	// failed counts the copies that could not be written.
	// +optional
	Failed int32 `json:"failed"`
	// conflicts counts the objects that were left alone because something else holds their name.
	// +optional
	Conflicts int32 `json:"conflicts"`
	// drifted counts the objects that a rule with mode Observe would create, change or delete.
	// +optional
	Drifted int32 `json:"drifted,omitempty"`
	// confirmedDeletions is the number of the annotation confirm-deletions that was used up: it counts
	// once, until it is taken away or another number is given.
	// +optional
	ConfirmedDeletions int32 `json:"confirmedDeletions,omitempty"`
	// sources are the clusters that the rule reads from.
	// +optional
	// +listType=map
	// +listMapKey=clusterID
	// +kubebuilder:validation:MaxItems=4096
	Sources []SourceStatus `json:"sources,omitempty"`
	// conditions are the current state in detail. Ready says whether the rule does what it says.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// lastErrors are the newest errors, newest first.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=2048
	LastErrors []string `json:"lastErrors,omitempty"`
}

// MaxAwaySources is how many sources a status lists that are not connected, and of which nothing is known: somebody may invent
// thousands. Where so many are listed, one that is not may be a source nevertheless.
const MaxAwaySources = 20

// SourceStatus is the state of a rule at one source.
type SourceStatus struct {
	// clusterID of the source.
	// +required
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=63
	ClusterID types.UID `json:"clusterID"`
	// cluster is the name of the source's Cluster object.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Cluster string `json:"cluster,omitempty"`
	// watching is true while the list of the source is complete and its watch live. While it is
	// false the copies from there are frozen.
	// +optional
	Watching bool `json:"watching,omitempty"`
	// matched counts the objects that the rule selects there.
	// +optional
	Matched int32 `json:"matched,omitempty"`
	// synced counts their copies that are as they should be.
	// +optional
	Synced int32 `json:"synced,omitempty"`
	// failed counts their copies that could not be written.
	// +optional
	Failed int32 `json:"failed,omitempty"`
	// lag is how long the last change took from its event to its copy.
	// +optional
	Lag *metav1.Duration `json:"lag,omitempty"`
	// message says why the source is not watched, or why its copies stay as they are although it is.
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	Message string `json:"message,omitempty"`
}
