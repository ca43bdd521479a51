// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package restore stops publishing after the local API server went back in time, until a person has confirmed its
// state. Gate says whether this cluster is frozen.
//
// An API server that was restored from a backup lacks what was created since, and that does not mean that anybody
// deleted it. There are three signs: the API server's history lacks what was read before (history.Positions); after a
// restart, members hold entries of an epoch that this cluster has no record of; and a CRD was deleted, which deletes
// its objects with the same events as if a person had deleted each of them.
//
// After any of these signs nothing is published, and no rule counts as deleted or edited, until a person confirms the
// present state: with a new value of an annotation on the cluster's own Cluster object.
//
//	open ──── Freeze ────► frozen, annotation unknown ──── first Confirm ────► frozen, annotation known
//	  ▲                                                                              │
//	  └──────────────────────────── Confirm reads another annotation ────────────────┘
//
// The freeze begins before the informers have anything of the new history. So a caller that first reads a lister, and
// then asks Frozen, never acts on the state after a restore.
//
// The freeze is recorded in the Secret with the cluster's key, so that a restart does not end it. An agent may be killed
// between any two of these steps, and the next one does not ask again for what a person has confirmed:
//
//  1. The freeze begins. Until it ends, the durable note of how far the API server was stays the one from before. A kill
//     here, before the record is written: the next start finds the same sign with a data directory; without one, only
//     those of the epoch and the CRDs.
//  2. The freeze is recorded, then the value of the annotation, and only then is a person told which annotation it is. A
//     kill after that: the next start compares with the recorded value. Who annotates before being told may be asked once
//     more.
//  3. The annotation has another value, which is the record of the confirmation: the cluster publishes again. A kill here: the
//     freeze is still recorded with the old value, and ends once the next start has read the annotation.
//  4. Options.Accept makes durable how far the API server is now, and the epoch. A kill here is as one in step 3.
//  5. One update removes the record of the freeze, and records the CRDs. While a later epoch that a member has shown waits
//     for a higher one, it also records the permission to open that, and at no other time: a backup that has the permission
//     would permit it after the next restore. A kill after that: nothing that was durable before the restore is left to
//     notice it by. If a member shows a later epoch only then, the next start asks once more.
//  6. The higher epoch is opened, and then the permission is removed. A kill between them leaves it for the rest of its
//     hour.
package restore
