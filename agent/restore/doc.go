// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package restore is the gate that closes when the local API server went back in time.
//
// An API server that was restored from a backup says that what was made since then does not exist, and means
// nothing by it. There are three signs: a history without what was read before (kube.Positions); after a restart, members
// that hold entries of an epoch which this cluster has no record of; and a CRD that was deleted, which takes its objects
// with it by events like those of a person who deletes them one by one. Who has lost a CRD has not asked all clusters to
// forget the rules.
//
// On each of these nothing is published and no rule is taken for deleted or edited, until a person confirms that this is
// how things are now: by another value of an annotation on the cluster's own Cluster object.
//
//	open ──── Freeze ────► frozen, annotation unknown ──── first Confirm ────► frozen, annotation known
//	  ▲                                                                              │
//	  └──────────────────────────── Confirm reads another annotation ────────────────┘
//
// The freeze begins before the informers take in anything of the new history. So whoever reads the listers and asks
// after that whether there is a freeze acts on nothing that a restore has brought.
package restore
