// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// Prefix opens the annotations and labels that mark replicated objects.
const Prefix = "cluster-registry.k8s.cisco.com/"

// LocalPrefix opens annotations and labels that belong to one cluster: they are never
// published, and a copy that gains or loses one is not repaired.
const LocalPrefix = "local.cluster-registry.k8s.cisco.com/"

// Annotations and labels of copies, and of objects that take part in replication.
const (
	// AnnotationOwnerClusterID names, on a copy, the cluster that owns it. An object without it is
	// local and is never touched.
	AnnotationOwnerClusterID = Prefix + "resource-owner-cluster-id"
	// LabelOwnerClusterID repeats the owner as a label, so that a watch can select copies.
	LabelOwnerClusterID = AnnotationOwnerClusterID

	// AnnotationOriginalGVK holds the kind of the source where a rule changed the kind of the copy.
	AnnotationOriginalGVK = Prefix + "original-group-version-kind"
	// LabelOriginalName holds the name of the source where a rule renamed the copy, or a hash of it where it
	// is too long for a label.
	LabelOriginalName = Prefix + "original-name"
	// LabelOriginalNamespace holds the namespace of the source where a rule moved the copy.
	LabelOriginalNamespace = Prefix + "original-namespace"
	// AnnotationOriginalKey holds namespace/name of the source, in full, on every copy that is not in the
	// place of its source.
	AnnotationOriginalKey = Prefix + "original-key"

	// AnnotationRule names, on a copy, the ResourceSyncRule that made it.
	AnnotationRule = Prefix + "resource-sync-rule"
	// AnnotationRuleDeletionPolicy holds, on a copy, the ruleDeletionPolicy of its rule where that is
	// not the default: it must be known when the rule is gone.
	AnnotationRuleDeletionPolicy = Prefix + "rule-deletion-policy"
	// AnnotationOrphaned marks, by its presence, a copy that nobody maintains any more.
	AnnotationOrphaned = Prefix + "orphaned"

	// AnnotationClusterDisabled on a Cluster stops, by its presence, all syncing with that cluster.
	AnnotationClusterDisabled = Prefix + "cluster-disabled"
	// AnnotationSyncDisabled on an object stops, by its presence, its publication at the origin, or
	// the maintenance of this one copy.
	AnnotationSyncDisabled = Prefix + "resource-sync-disabled"

	// AnnotationConfirmRestore on a Cluster, set by a person in that cluster, confirms that its API server was
	// restored from a backup, or emptied, on purpose: a value that was not there before makes everybody go on
	// from what it has now.
	AnnotationConfirmRestore = Prefix + "confirm-restore"
	// CommandConfirmRestore sets it in the cluster of the current context.
	CommandConfirmRestore = "agentctl restore confirm"

	// AnnotationLeave on a cluster's own Cluster object, set by a person in that cluster, makes its agent leave the
	// group and go on alone under a new key. The value is the public key that is given up (RequestKey).
	AnnotationLeave = LocalPrefix + "leave"
	// AnnotationRemove on the Cluster object of another cluster, set by a person, removes that cluster from the
	// group for all its members. The value is the public key that is removed (RequestKey).
	AnnotationRemove = LocalPrefix + "remove"
	// AnnotationRemoveAdmitted beside AnnotationRemove says what becomes of the clusters that no path of admissions leads to
	// without the removed one: RemoveWithAdmitted removes them, too. Else they stay, and with RemoveKeepAdmitted, or without the
	// annotation, this cluster answers for them.
	AnnotationRemoveAdmitted = LocalPrefix + "remove-admitted"
	RemoveWithAdmitted       = "with"
	RemoveKeepAdmitted       = "keep"
	// AnnotationApprove on a cluster's own Cluster object, set by a person in that cluster, admits clusters that were removed
	// from the group, each under one new key: Approval, separated by commas. An approval takes nothing back when it goes.
	AnnotationApprove = LocalPrefix + "approve"
	// AnnotationConfirmRemovals on a cluster's own Cluster object, set by a person in that cluster, confirms removals that other
	// members ordered, each of one key: Approval, separated by commas. A confirmation takes nothing back when it goes.
	AnnotationConfirmRemovals = LocalPrefix + "confirm-removals"
	// AnnotationRegistryManagedFields on a Cluster holds the managedFields of its form in group clusterregistry.k8s.io
	// (kube/registry), where it is not shown.
	AnnotationRegistryManagedFields = LocalPrefix + "registry-managed-fields"

	// AnnotationAccept on the Cluster object of another cluster, set by a person, says what of that cluster takes effect
	// here, whatever the chart value trust.accept says: all; objects, but not its rules; or none.
	AnnotationAccept = LocalPrefix + "accept"

	// AnnotationRole on the Cluster object of another cluster, set by a person with the swap, says what that cluster becomes in
	// the group: RoleEdge; or RoleFull, which it is without the annotation. RoleFull also makes a full member of an edge. Nothing
	// makes an edge of a full member but its removal, and another swap under a new key. It goes when the copy gets another key.
	AnnotationRole = LocalPrefix + "role"
	RoleFull       = "full"
	RoleEdge       = "edge" // it neither admits nor removes other clusters, and its rules are in force nowhere else

	// AnnotationAdopt on an object, set by a person in that cluster, names the rules that may make it a copy, separated by
	// commas, as RULE or RULE@CLUSTERID, for copies of that cluster's object. AnnotationAdopted marks, by its presence, a copy that became one so: it is never deleted.
	AnnotationAdopt   = LocalPrefix + "adopt"
	AnnotationAdopted = LocalPrefix + "adopted"

	// AnnotationNotUnderstood marks a rule that has fields which the agent here does not know, and names them. Such a rule
	// is not in force here (package syncrules/skew). Agents set it, on copies of rules and in what they hold in memory.
	AnnotationNotUnderstood = LocalPrefix + "not-understood"

	// LabelExportedFor, on a Secret, says that it holds a credential for another cluster, in the form that the tool of that name
	// reads (package kube/exported). Such a Secret is no source of copies.
	LabelExportedFor = LocalPrefix + "exported-for"
	// AnnotationRenewCredentialOf on such a Secret names a Cluster object: in the namespaces that the chart names, the agent
	// keeps the credential for that cluster in it.
	AnnotationRenewCredentialOf = LocalPrefix + "renew-credential-of"
	// AnnotationExportedClusterID on such a Secret is the clusterID of the cluster whose credential it holds: another cluster
	// that takes the name does not get into the Secret.
	AnnotationExportedClusterID = LocalPrefix + "exported-cluster-id"

	// LabelCoreSyncResource marks the ResourceSyncRules that the existing controller makes for its
	// own core resources. They describe what Roster does without a rule.
	LabelCoreSyncResource = "cluster-registry-controller.k8s.cisco.com/core-sync-resource"

	// LabelControllerAggregated with value "true" adds a ClusterRole to what agents may do here.
	LabelControllerAggregated = Prefix + "controller-aggregated"
	// LabelReaderAggregated with value "true" adds a ClusterRole to what peers may read here.
	LabelReaderAggregated = Prefix + "reader-aggregated"
)

// Versions of the CRDs.
const (
	// AnnotationSchemaVersion is, on a CRD, the SchemaVersion that it was generated from.
	AnnotationSchemaVersion = Prefix + "schema-version"
	// AnnotationSchemaOldestAgent is the oldest SchemaVersion whose agents may work with this CRD.
	AnnotationSchemaOldestAgent = Prefix + "schema-oldest-agent"

	// SchemaVersion is raised by one with every change of the CRDs, so that those in a cluster can be told to
	// be older or newer than a program.
	SchemaVersion = 10
	// SchemaRoles is the first SchemaVersion whose agents know AnnotationRole.
	SchemaRoles = 10
	// SchemaOldestAgent is raised by a change that older agents would do harm to, such as a field that they would drop
	// when they write the object back: to the version whose agents know it.
	SchemaOldestAgent = 7
)

// The Secret that carries a credential for a cluster.
const (
	SecretType          = "k8s.cisco.com/cluster-registry-secret"
	SecretKubeconfigKey = "kubeconfig"
)

// DefaultNamespace is the agent's namespace where nothing else is said.
const DefaultNamespace = "cluster-registry"

// DefaultServiceAccount is the agent's ServiceAccount as the chart names it by default.
const DefaultServiceAccount = "cluster-registry-controller"

// What ends a swapped token.
const (
	// SwapAccount is, in PrivateNamespace, the ServiceAccount of swapped tokens. It is not in ReadersGroup, and may read the
	// registry alone.
	SwapAccount = "swap"
	// SwapSecret is, in PrivateNamespace, the Secret that swapped tokens are bound to. They end with it.
	SwapSecret = "roster-swap"
	// LegacySwapAccount is, in ReadersNamespace, the ServiceAccount of swapped tokens of earlier releases, and of those with
	// the chart value credentials.legacyToken.
	LegacySwapAccount = "bootstrap"
)

// ReaderAccount is, in ReadersNamespace, the ServiceAccount of what the agent issues to one cluster.
func ReaderAccount(clusterID string) string { return "reader-" + clusterID }

// PrivateNamespace is the namespace of what peers must not read: keys, and credentials of others.
func PrivateNamespace(namespace string) string { return namespace + "-private" }

// IssuedSecret is the Secret in PrivateNamespace with the credential that a cluster's agent issued.
func IssuedSecret(clusterID string) string { return "peer-" + clusterID }

// ReadersNamespace is the namespace of the ServiceAccounts that peers read with.
func ReadersNamespace(namespace string) string { return namespace + "-readers" }

// ReadersGroup is the group that holds exactly the ServiceAccounts of ReadersNamespace. The chart
// binds it, so that the agent grants read access by creating an account and writes no RBAC.
func ReadersGroup(namespace string) string {
	return "system:serviceaccounts:" + ReadersNamespace(namespace)
}
