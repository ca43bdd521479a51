// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// AgentsSecret, in the private namespace, is what the agents of one cluster agree upon where there are several. Whoever
// changes it compares and swaps.
const (
	AgentsSecret = "roster-agents"
	// AgentsGroup names their group, and AgentsFounder the server that it begins with.
	AgentsGroup   = "group"
	AgentsFounder = "founder"
	// AgentsKey is the public key of the cluster under which it was begun, as RequestKey shows it; an earlier release did
	// not record it.
	AgentsKey = "key"
	// AgentsRecovered is the address of the survivor that the group was recovered from, until it has opened a new epoch:
	// the others may have signed what it does not hold.
	AgentsRecovered = "recovered"
	// AgentsSurvivors has the agents, as AgentSurvivors in JSON, that say that the group has no leader.
	AgentsSurvivors = "survivors"
)

// AgentSurvivor is an agent of a group without a leader.
//
// +k8s:deepcopy-gen=false
type AgentSurvivor struct {
	ServerID string `json:"serverID"`
	// Term and Index say how far its log goes: the one that goes farthest has the most.
	Term  uint64 `json:"term"`
	Index uint64 `json:"index"`
}

// AgentSurvivors are survivors by their --group-address.
//
// +k8s:deepcopy-gen=false
type AgentSurvivors map[string]AgentSurvivor
