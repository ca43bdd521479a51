// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package status writes the status of Cluster objects.
//
// Of is pure: it computes the status from a View, which has only values. Writer compares it with the present status and
// writes the difference, with one event. It delays a state that will most likely change again within a second.
// Description is what this cluster reports of itself: from its nodes, and the API server's version.
//
// Wiring calls Writer.Enqueue when something that the View shows has changed, and the agent's facts.go fills the View.
package status
