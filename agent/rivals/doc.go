// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package rivals says which members admit a clusterID under another key than the one that is pinned for it.
//
// The pin stays, whoever says what: this is so that a person learns of it. A member that does so wants newcomers to take
// that key for the cluster, or has not heard yet that the cluster goes on under another one. So it is shown once it has lasted
// for a while (settle), on the Cluster objects of that clusterID and on the own one, in one event for each such member, and in
// the log.
//
// What is remembered are at most maxShown, shared by who admitted whom, and only while their authors say so and are members.
package rivals
