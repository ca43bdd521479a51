// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package agentrecord names what the agents of one cluster agree upon where there are several. Whoever changes it compares and
// swaps.
package agentrecord

// Keys of the record, and its name as a Secret in the private namespace.
const (
	Name = "roster-agents"
	// Group names their group, and Founder the server that it begins with.
	Group   = "group"
	Founder = "founder"
	// Key is the public key of the cluster under which it was begun, as v1alpha1.RequestKey shows it; an earlier release did
	// not record it.
	Key = "key"
	// Recovered is the address of the survivor that the group was recovered from, until it has opened a new epoch:
	// the others may have signed what it does not hold.
	Recovered = "recovered"
	// SurvivorList has the agents, as Survivors in JSON, that say that the group has no leader.
	SurvivorList = "survivors"
)

// Survivor is an agent of a group without a leader.
type Survivor struct {
	ServerID string `json:"serverID"`
	// Term and Index say how far its log goes: the one that goes farthest has the most.
	Term  uint64 `json:"term"`
	Index uint64 `json:"index"`
}

// Survivors are survivors by their --group-address.
type Survivors map[string]Survivor
