// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package peers reaches the API servers of the other clusters. For each cluster that the local API server lists there is
// one link: it finds a credential, proves that the right cluster answers, hands the connection on, and renews.
//
//	            ┌────────────────── wait ◄──────────────────┐
//	            ▼                                           │
//	route ─► credential ─► connect and prove ─► hand it on ─┤
//	  │          │                │                         │
//	  │ gone     │ none, invalid  │ no answer: keep what there is
//	  ▼          ▼                ▼ wrong cluster, not accepted: take it away
//	 end        take it away
//
// A link waits until it is told that something has changed (Changed), its watches fail or work again, the credential is to
// be renewed, or the next try is due. Where there is no connection, what was copied from that cluster is frozen: that the
// cluster does not answer says nothing of its objects.
//
// A credential is, in this order: the one that the cluster's own agent issued to us and that is kept in the private
// namespace, as Secret peer-<clusterID>; a new one from that agent; the one that a person pasted here (a swap), which is
// read and never changed.
//
// How far each API server was (history.Positions) outlives connections, links and agents: it is recorded in the Secrets
// roster-positions, so that a restore of a peer is noticed which happens while no agent runs.
//
// Locks: Changed and the end of a link ask the directory under the lock of Peers, which asks membership, which asks
// mesh.Trust. So the order is peers > membership > mesh.Trust: neither of the two may call into this package with a lock
// held. Hooks are called without a lock.
package peers
