// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package profiles publishes the list of clusters as the SIG Multicluster APIs have it, in the local API server: a
// ClusterProfile (multicluster.x-k8s.io) for each cluster, in one namespace, and what this cluster is in two
// ClusterProperties (about.k8s.io). Other programs find clusters there and know nothing of Roster.
//
// It is off without --publish-cluster-profiles. The agent does not install the CRDs: it waits until the API server serves them, in the
// best version that it knows, and goes over to a better one that arrives.
//
// A profile is computed from the Cluster object here and is written only when that changes something: there is no timer, and
// no time of the last look. What others add to the status of a profile stays: conditions, properties and access providers of
// other names. A profile of another manager, and a property that somebody else made, are left alone and reported once.
//
// A profile is deleted when it is known that its cluster is gone. A cluster that does not answer is not gone.
//
// No credential is in a profile, only the name of the Secret that has one. Who may read that is for a person to say.
package profiles
