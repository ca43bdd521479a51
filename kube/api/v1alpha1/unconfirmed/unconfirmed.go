// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package unconfirmed is how the message of a Cluster's condition RemovalsInEffect lists removals that nobody has confirmed.
package unconfirmed

import "regexp"

// Removal is a removal that another member ordered.
type Removal struct {
	Name        string // of the cluster that is removed
	ClusterID   string
	Fingerprint string // of its public key (v1alpha1.KeyFingerprint)
	By          string // the name of the member that ordered it
	ByClusterID string
	ByKey       string // the fingerprint of the key that signed it
	State       string // Held, ByEdge, Disputed or InEffect
}

// The states of a Removal.
const (
	Held     = "held"                             // nothing has ended
	Disputed = "held, its author is no member"    // nor has it here, and nobody needs to do anything
	ByEdge   = "held, its author is an edge"      // which removes nobody, so nobody needs to do anything
	InEffect = "in effect, counts for its author" // until it is confirmed
)

// Line is what the message says of a removal.
func (r Removal) Line() string {
	return r.Name + " (clusterID " + r.ClusterID + ", key " + r.Fingerprint + ") by " + r.By + " (clusterID " + r.ByClusterID + ", key " + r.ByKey + "): " + r.State
}

// Parse reads the removals from the message.
func Parse(message string) (all []Removal) {
	line := regexp.MustCompile(`(\S+) \(clusterID (\S+), key ([0-9a-f]{32})\) by (\S+) \(clusterID ([^\s,)]+)(?:, key ([0-9a-f]{32}))?\): (` + Disputed + `|` + ByEdge + `|` + Held + `|` + InEffect + `)`)
	for _, m := range line.FindAllStringSubmatch(message, -1) {
		all = append(all, Removal{m[1], m[2], m[3], m[4], m[5], m[6], m[7]})
	}
	return all
}
