// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package renewals keeps the credentials for other clusters in Secrets that ask for it, for tools that read them there, such
// as Argo CD and Flux: a file that agentctl export wrote ends with its tokens.
//
// It is off without --renew-namespaces. In those namespaces it watches the Secrets with the label v1alpha1.LabelExportedFor, and
// writes those that name a cluster in the annotation v1alpha1.AnnotationRenewCredentialOf. Others never get here. A Secret is
// written when the agent has another credential, address or CA for that cluster than the Secret: there is no timer beside the
// one by which the agent renews its own credential. Secrets are never created or deleted, and what they have beside the
// credential stays.
//
// Somebody else who undoes a write within a minute makes the agent wait before the next, ever longer; an event says so.
//
// Only a credential that the cluster's agent issued is written, with the address and the CA with which it was proven who
// answers. Where there is none, the Secret stays as it is, and an event says why, once.
//
// A Secret belongs to one cluster, by the clusterID that the first write records in it. Another cluster that takes the name
// does not get into the Secret.
package renewals
