// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package status writes the status of Cluster objects.
//
// Of is pure: it says what the status should be, from a View, which is values. Writer compares that with what is there,
// waits a second with what most likely will not last, writes what differs, and sends one event for it. Description is what
// this cluster says of itself: nodes and the API server's version.
package status
