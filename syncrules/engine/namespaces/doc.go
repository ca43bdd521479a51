// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package namespaces knows what the engine must know of the namespaces here: which ones copies wait for, and which ones
// agents created for copies, and which ones rules select (spec.targetNamespaces). Each is watched while somebody needs it.
//
// It has the lock of the engine: what ends in Locked is called with it held.
package namespaces
