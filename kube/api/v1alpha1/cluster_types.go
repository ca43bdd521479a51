// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Cluster is one Kubernetes cluster of the group. Every cluster of the group holds a Cluster object
// for itself (type Local) and one for each other (type Peer). A cluster is labelled in that cluster,
// on the former: from there its labels reach all others, where changes to them are undone.
//
// +genclient
// +genclient:nonNamespaced
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=clusters,singular=cluster,scope=Cluster
// +kubebuilder:printcolumn:name="ID",type=string,JSONPath=`.spec.clusterID`,priority=1
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.state`
// +kubebuilder:printcolumn:name="Type",type=string,JSONPath=`.status.type`
// +kubebuilder:printcolumn:name="Synced",type=string,JSONPath=`.status.conditions[?(@.type=="ClustersSynced")].status`
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.status.version`,priority=1
// +kubebuilder:printcolumn:name="Provider",type=string,JSONPath=`.status.provider`,priority=1
// +kubebuilder:printcolumn:name="Distribution",type=string,JSONPath=`.status.distribution`,priority=1
// +kubebuilder:printcolumn:name="Region",type=string,JSONPath=`.status.locality.region`,priority=1
// +kubebuilder:printcolumn:name="Status Message",type=string,JSONPath=`.status.message`,priority=1
// +kubebuilder:printcolumn:name="Sync Message",type=string,JSONPath=`.status.conditions[?(@.type=="ClustersSynced")].message`,priority=1
type Cluster struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says which cluster this is and how it is reached.
	// +required
	Spec ClusterSpec `json:"spec"`
	// status is what the agent of this cluster knows about that cluster.
	// +optional
	Status ClusterStatus `json:"status,omitempty"`
}

// ClusterList is a list of Clusters.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
type ClusterList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Cluster `json:"items"`
}

// ClusterSpec says which cluster this is and how it is reached.
//
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.clusterID) || has(self.clusterID) && self.clusterID == oldSelf.clusterID",message="clusterID is the identity of the cluster and cannot be changed; another cluster needs a Cluster object of another name"
// +kubebuilder:validation:XValidation:rule="has(self.clusterID) || !has(self.mesh) || !has(self.mesh.publicKey)",message="mesh.publicKey is the key of the cluster that clusterID names: give the clusterID too"
type ClusterSpec struct {
	// clusterID is the UID of the cluster's kube-system namespace. It is the cluster's identity and,
	// once set, cannot be changed; a cluster that was built anew is a new Cluster object. A cluster
	// without one is listed here and nowhere else: it joins no group, and agents pass it by.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$')",message="clusterID must be the UID of the cluster's kube-system namespace"
	ClusterID types.UID `json:"clusterID,omitempty"`

	// authInfo says where credentials for this cluster are. It is local to each cluster: it is
	// never sent to others.
	// +optional
	AuthInfo AuthInfo `json:"authInfo,omitempty"`

	// kubernetesApiEndpoints are the addresses of the cluster's API server. The entry of the reader's
	// own network wins, then the first one for all clients, then the address in the credential.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	KubernetesAPIEndpoints []KubernetesAPIEndpoint `json:"kubernetesApiEndpoints,omitempty"`

	// mesh says how the cluster's agent is met in the mesh. The cluster's own agent fills it.
	// +optional
	Mesh *ClusterMesh `json:"mesh,omitempty"`
}

// AuthInfo says where credentials for a cluster are.
type AuthInfo struct {
	// secretRef names a Secret of type k8s.cisco.com/cluster-registry-secret whose key kubeconfig
	// holds the credential that the agent uses.
	// +optional
	SecretRef NamespacedName `json:"secretRef,omitempty"`
	// user names an object that users of the cluster take their credential from. Agents do not use it.
	// +optional
	User *ObjectReference `json:"user,omitempty"`
	// controller names an object of another kind than Secret that controllers take their credential
	// from. Agents do not use it.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self.kind != 'Secret'",message="a Secret is named in secretRef"
	Controller *ObjectReference `json:"controller,omitempty"`
}

// ObjectReference names an object of some kind.
type ObjectReference struct {
	// kind of the object.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Kind string `json:"kind"`
	// name of the object.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// namespace of the object, where it has one.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace,omitempty"`
}

// NamespacedName names an object in a namespace.
type NamespacedName struct {
	// name of the object.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`
	// namespace of the object.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace,omitempty"`
}

// KubernetesAPIEndpoint is one address of an API server, as seen from one network.
type KubernetesAPIEndpoint struct {
	// clientNetwork is the network of the clients that use this address; agents compare it with
	// their --network-name. Empty means every network.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	ClientNetwork string `json:"clientNetwork,omitempty"`
	// clientCIDR is the range of the addresses of the clients that use this address, such as
	// 10.0.0.0/8. Agents do not know their own address as others see it: without a clientNetwork
	// they use an entry that has no clientCIDR, or that of all addresses.
	// +optional
	// +kubebuilder:validation:MaxLength=49
	// +kubebuilder:validation:Format=cidr
	ClientCIDR string `json:"clientCIDR,omitempty"`
	// serverAddress is a host, a host:port, or an https URL.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	ServerAddress string `json:"serverAddress,omitempty"`
	// caBundle holds the PEM certificates that the API server's certificate is checked against.
	// Without it those of the credential are used.
	// +optional
	// +kubebuilder:validation:MaxLength=262144
	CABundle []byte `json:"caBundle,omitempty"`
}

// ClusterMesh says how the agent of a cluster is met in the mesh.
type ClusterMesh struct {
	// endpoints are the host:port addresses of the cluster's mesh port; hostnames are allowed, and
	// each is tried.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=259
	// +kubebuilder:validation:items:Pattern=`^(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9.])?):[0-9]{1,5}$`
	Endpoints []string `json:"endpoints,omitempty"`
	// publicKey is the cluster's Ed25519 public key. Copying it to another cluster, with the rest of
	// this object, is what makes that cluster trust this one.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Format=""
	// +kubebuilder:validation:XValidation:rule=`self.matches('^[A-Za-z0-9+/]{42}[AEIMQUYcgkosw048]=$')`,message="publicKey must be an Ed25519 public key: 32 bytes in base64"
	PublicKey []byte `json:"publicKey,omitempty"`
	// tunnel will say whether peers reach the API server directly or through the cluster's agent. It
	// has no effect yet: every peer reaches the API server directly.
	// +optional
	Tunnel TunnelMode `json:"tunnel,omitempty"`
}

// TunnelMode says when an API server is reached through its cluster's agent. Nothing reads it yet.
//
// +kubebuilder:validation:Enum=Auto;Always;Never
type TunnelMode string

// The modes of a tunnel.
const (
	TunnelAuto   TunnelMode = "Auto"
	TunnelAlways TunnelMode = "Always"
	TunnelNever  TunnelMode = "Never"
)

// ClusterStatus is what the agent of this cluster knows about a cluster.
type ClusterStatus struct {
	// state sums the conditions up in one word.
	// +optional
	State ClusterState `json:"state,omitempty"`
	// message says what state means here and, where something is wrong, what to do.
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	Message string `json:"message,omitempty"`
	// type is Local for the cluster that this object is in, else Peer.
	// +optional
	Type ClusterType `json:"type,omitempty"`
	// leader is true on the Local Cluster while an agent is at work there.
	// +optional
	Leader bool `json:"leader,omitempty"`
	// provider of the infrastructure, such as amazon, azure, google, vsphere or kind.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Provider string `json:"provider,omitempty"`
	// distribution of Kubernetes, such as EKS, GKE, AKS, KIND, OPENSHIFT or K3S.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Distribution string `json:"distribution,omitempty"`
	// kubeProxyVersions are the versions of kube-proxy that the nodes report.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=253
	KubeProxyVersions []string `json:"kubeProxyVersions,omitempty"`
	// kubeletVersions are the versions of kubelet that the nodes report.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=253
	KubeletVersions []string `json:"kubeletVersions,omitempty"`
	// version of the API server.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Version string `json:"version,omitempty"`
	// agentVersion is the version of the cluster's agent.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	AgentVersion string `json:"agentVersion,omitempty"`
	// schemaVersion is that of the CRDs which the cluster's agent was built with: it knows the fields of rules that this
	// version has. Agents before version 7 do not report it.
	// +optional
	// +kubebuilder:validation:Minimum=0
	SchemaVersion int32 `json:"schemaVersion,omitempty"`
	// locality is where the nodes are.
	// +optional
	Locality *Locality `json:"locality,omitempty"`
	// admittedBy lists the clusterIDs of the members on whose word this cluster takes that one for a member, up to 64; its
	// own where a person here decided it. After a slash comes the member that brought the cluster, where the first one answers
	// for it on that one's word.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=127
	AdmittedBy []string `json:"admittedBy,omitempty"`
	// role is full, or edge for a member that neither admits nor removes other clusters, and whose rules are in force
	// nowhere else. Agents before version 10 do not report it.
	// +optional
	// +kubebuilder:validation:Enum=full;edge
	Role string `json:"role,omitempty"`
	// conditions are the current state in detail: LocalCluster, LocalConflict, ClusterMetadataSet,
	// Ready, ClustersSynced, Member.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Locality is where the nodes of a cluster are.
type Locality struct {
	// region that most nodes are in.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Region string `json:"region,omitempty"`
	// regions of all nodes.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=253
	Regions []string `json:"regions,omitempty"`
	// zones of all nodes.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MaxLength=253
	Zones []string `json:"zones,omitempty"`
}

// ClusterType tells the cluster that an object is in from the others.
//
// +kubebuilder:validation:Enum=Local;Peer
type ClusterType string

// The types of a cluster.
const (
	ClusterTypeLocal ClusterType = "Local"
	ClusterTypePeer  ClusterType = "Peer"
)

// ClusterState sums the conditions of a cluster up in one word.
//
// +kubebuilder:validation:Enum=Ready;Synced;Failed;Disabled;MissingAuthInfo;InvalidAuthInfo
type ClusterState string

// The states of a cluster.
const (
	ClusterStateReady           ClusterState = "Ready"
	ClusterStateSynced          ClusterState = "Synced"
	ClusterStateFailed          ClusterState = "Failed"
	ClusterStateDisabled        ClusterState = "Disabled"
	ClusterStateMissingAuthInfo ClusterState = "MissingAuthInfo"
	ClusterStateInvalidAuthInfo ClusterState = "InvalidAuthInfo"
)

// The condition types of a cluster.
const (
	// ConditionLocalCluster: this object is the cluster that it is in.
	ConditionLocalCluster = "LocalCluster"
	// ConditionLocalConflict: more than one Cluster object claims this clusterID.
	ConditionLocalConflict = "LocalConflict"
	// ConditionClusterMetadataSet: provider, distribution, versions and locality are known.
	ConditionClusterMetadataSet = "ClusterMetadataSet"
	// ConditionReady: the cluster's API server answers, and is the one that clusterID names.
	ConditionReady = "Ready"
	// ConditionClustersSynced: what this cluster published is held here completely.
	ConditionClustersSynced = "ClustersSynced"
	// ConditionMember: the mesh has contact with the cluster's agent; the reason is one of Member….
	ConditionMember = "Member"
	// ConditionRemovalsConfirmed, on the Local Cluster: every member has confirmed the removals that were ordered
	// here; the message has a RemovalLine for each.
	ConditionRemovalsConfirmed = "RemovalsConfirmed"
	// ConditionClustersAdmitted, on a cluster's own object, is there while a cluster that was removed waits to be admitted
	// again; the message has a NewcomerLine for each, and says what to do. It is there, too, while an authority that is
	// named in this cluster is no member, and while a member admits a cluster under another key than the one that is pinned.
	ConditionClustersAdmitted = "ClustersAdmitted"
	// ConditionRemovalsInEffect, on a cluster's own object, is there while there are removals by other members that nobody there
	// has confirmed; it is False while some are held. Package unconfirmed has its message.
	ConditionRemovalsInEffect = "RemovalsInEffect"
	// ConditionChangesApplied, on a cluster's own object, is there, and False with the reason ChangesSlowed, while Clusters and rules
	// of other clusters wait to be written here. Its message says because of whom.
	ConditionChangesApplied = "ChangesApplied"
	ChangesSlowed           = "Slowed"
)

// The reasons of ConditionClustersAdmitted.
const (
	AdmittedPending          = "Pending"
	AdmittedUnknownAuthority = "UnknownAuthority"
	AdmittedOtherKey         = "OtherKey"
)

// The reasons of ConditionMember.
const (
	MemberLocal   = "Local"
	MemberAlive   = "Alive"
	MemberSuspect = "Suspect"
	MemberFailed  = "Failed"
	MemberLeft    = "Left"
	MemberUnknown = "Unknown"
	MemberRemoved = "Removed"
	MemberPending = "Pending"
)
