// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ClusterFeature says that the cluster it is in has a feature. Rules use it to choose the clusters
// that they copy from. It is known to the whole group and written only in its own cluster.
//
// +genclient
// +genclient:nonNamespaced
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=clusterfeatures,singular=clusterfeature,scope=Cluster,shortName=cf
// +kubebuilder:printcolumn:name="Feature",type=string,JSONPath=`.spec.featureName`
type ClusterFeature struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec names the feature.
	// +required
	Spec ClusterFeatureSpec `json:"spec"`
	// status is reserved.
	// +optional
	Status ClusterFeatureStatus `json:"status,omitempty"`
}

// ClusterFeatureList is a list of ClusterFeatures.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
type ClusterFeatureList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ClusterFeature `json:"items"`
}

// ClusterFeatureSpec names a feature.
type ClusterFeatureSpec struct {
	// featureName is the name that rules match in clusterFeatureMatch. Several ClusterFeatures may
	// carry the same one.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	FeatureName string `json:"featureName"`
}

// ClusterFeatureStatus is reserved.
type ClusterFeatureStatus struct {
	// conditions are the current state in detail.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}
