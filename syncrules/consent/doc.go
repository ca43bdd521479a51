// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package consent says what a cluster lets the others do to it. Rules come from every member of the group, and are in force
// in each cluster; what would give one of them power over this cluster needs this cluster's consent, whatever the rule says.
//
// Policy is about objects and kinds: what may be a source (RefuseSource, before the rules see it), and what may be written
// (Refuse, after all mutations). Accept is about clusters: whether their rules are in force here, and whether anything is
// copied from them. Both come from the chart's values; for one cluster, an annotation on its Cluster object wins.
//
// All of it is pure functions on values. Every error wraps ErrNeeded, and says what to set to allow it.
package consent
