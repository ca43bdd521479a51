// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package fanout says in which namespaces of a cluster a rule makes copies of one object: spec.targetNamespaces. It is pure.
//
// A namespace is selected, or is not, by the labels that it has now. What is not known of it is Unknown, and then copies in
// it stay as they are: a namespace that is not in a list, which may be older than the copies, and one that is being deleted.
package fanout
