// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package peers connects to the API servers of the other clusters. For each cluster that has a Cluster object here
// there is one link. It finds a credential, verifies that the right cluster answers, hands the connection to the rules,
// and renews the credential in time.
//
//	            ┌────────────────── wait ◄──────────────────┐
//	            ▼                                           │
//	route ─► credential ─► connect and verify ─► hand it on ─┤
//	  │          │                │                         │
//	  │ gone     │ none, invalid  │ no answer: keep the old connection
//	  ▼          ▼                ▼ wrong cluster, not accepted: disconnect
//	 end        disconnect
//
// A link waits until something has changed (Changed, MemberChanged), its watches fail or recover, the credential must be
// renewed, or the next retry is due. While there is no connection, the copies from that cluster are frozen: a cluster
// that does not answer says nothing about its objects.
//
// A link looks for a credential in this order: the one that the agent of the cluster issued to this one and that is
// kept in the private namespace, as Secret peer-<clusterID>; a new one from that agent; the one that a person pasted
// here (a swap), which is never changed.
//
// A pasted Secret serves one cluster, the first whose Cluster object named it. That is recorded in the Secret roster-pasted.
//
// How far each API server was (history.Positions) outlives connections, links and agents. It is recorded in the Secrets
// roster-positions, so that a restore of a peer is noticed even if it happens while no agent runs.
//
// Locks: Changed and the end of a link call the directory with the lock of Peers held; the directory calls membership,
// and that calls mesh.Trust. So the lock order is peers > membership > mesh.Trust, and neither of the two may call this
// package with a lock held. Hooks are called without a lock.
package peers
