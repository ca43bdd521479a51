// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Cluster is one Kubernetes cluster of the registry.
//
// +genclient
// +genclient:nonNamespaced
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type Cluster struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard metadata of an object.
	// +optional
	metav1.ObjectMeta `json:"metadata"`

	// spec says how the cluster is reached, and with which credentials.
	// +optional
	Spec ClusterSpec `json:"spec,omitzero"`
	// status is what controllers observed of the cluster.
	// +optional
	Status ClusterStatus `json:"status,omitzero"`
}

// ClusterList is a list of Clusters.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type ClusterList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard metadata of a list.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"` //nolint:modernize // the JSON serializer streams a list with exactly this tag only
	// items are the Clusters.
	Items []Cluster `json:"items"`
}

// ClusterSpec says how a cluster is reached, and with which credentials.
type ClusterSpec struct {
	// kubernetesApiEndpoints are the addresses of the cluster's API server.
	// +optional
	KubernetesAPIEndpoints KubernetesAPIEndpoints `json:"kubernetesApiEndpoints,omitzero"`
	// authInfo names objects that hold credentials for the cluster. Only callers who may update the Cluster of
	// group clusterregistry.k8s.cisco.com may change it.
	// +optional
	AuthInfo AuthInfo `json:"authInfo,omitzero"`
}

// KubernetesAPIEndpoints are the addresses of an API server and the certificates that they are checked against.
type KubernetesAPIEndpoints struct {
	// serverEndpoints are the addresses, each with the clients that use it. A client uses the first whose
	// clientCIDR contains its own address.
	// +optional
	// +listType=atomic
	ServerEndpoints []ServerAddressByClientCIDR `json:"serverEndpoints,omitempty"`
	// caBundle holds PEM certificates that the API server's certificate is checked against. It is shown where
	// all addresses have the same ones, and written to all of them.
	// +optional
	CABundle []byte `json:"caBundle,omitempty"`
}

// ServerAddressByClientCIDR is the address that clients of one network use.
type ServerAddressByClientCIDR struct {
	// clientCIDR is the network of the clients that use this address, such as 10.0.0.0/8. Empty means every
	// client.
	// +optional
	ClientCIDR string `json:"clientCIDR,omitempty"`
	// serverAddress is a hostname, an IP, a host:port, or an https URL.
	// +optional
	ServerAddress string `json:"serverAddress,omitempty"`
}

// AuthInfo names objects that hold credentials for a cluster. It holds no credential itself.
type AuthInfo struct {
	// user names an object that users of the cluster take their credential from.
	// +optional
	User *ObjectReference `json:"user,omitempty"`
	// controller names an object that controllers take their credential from. One of kind Secret is the
	// credential that the agent reads the cluster with.
	// +optional
	Controller *ObjectReference `json:"controller,omitempty"`
}

// ObjectReference names an object, here or wherever the reader of the reference expects it.
type ObjectReference struct {
	// kind of the object.
	// +optional
	Kind string `json:"kind,omitempty"`
	// name of the object.
	// +optional
	Name string `json:"name,omitempty"`
	// namespace of the object.
	// +optional
	Namespace string `json:"namespace,omitempty"`
}

// ClusterStatus is what controllers observed of a cluster.
type ClusterStatus struct {
	// conditions are the current state. Those that the agent keeps are its own, with Ready shown as OK; others
	// belong to whoever writes them.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []ClusterCondition `json:"conditions,omitempty"`
}

// ClusterCondition is one aspect of the state of a cluster.
type ClusterCondition struct {
	// type of the condition, such as OK.
	Type ClusterConditionType `json:"type"`
	// status is True, False or Unknown.
	Status metav1.ConditionStatus `json:"status"`
	// lastHeartbeatTime is when the condition was last confirmed. It is taken and not stored, as a write for
	// each heartbeat would reach everybody who watches.
	// +optional
	LastHeartbeatTime metav1.Time `json:"lastHeartbeatTime,omitzero"`
	// lastTransitionTime is when status last changed.
	// +optional
	LastTransitionTime metav1.Time `json:"lastTransitionTime,omitzero"`
	// reason of the last change, in one word.
	// +optional
	Reason string `json:"reason,omitempty"`
	// message says the same to a person.
	// +optional
	Message string `json:"message,omitempty"`
}

// ClusterConditionType is the type of a ClusterCondition.
type ClusterConditionType string

// ClusterOK is the condition that says whether the cluster's API server answers.
const ClusterOK ClusterConditionType = "OK"
