// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package apiconn

import "time"

// Access is the state of the agent's access to the API server of a peer. The values are shown to users and are labels
// of metrics.
type Access string

// The states of Access.
const (
	Pending     Access = ""                  // not tried yet
	Ready       Access = "Connected"         // the API server behind the endpoint is the peer's
	Disabled    Access = "Disabled"          // a person switched the peer off here
	Missing     Access = "MissingCredential" // no credential yet
	Invalid     Access = "InvalidCredential" // a credential that does not parse or is not accepted
	Unreachable Access = "APIUnreachable"
	Wrong       Access = "WrongCluster" // another cluster answers
)

// AccessState is an Access with its message for users. The message must be the same each time the same failure repeats,
// or every retry would write a status.
type AccessState struct {
	Access  Access
	Message string
	Since   time.Time // by the clock of this machine
}

// Grace is how long a failed member, or an API server that does not answer, is shown as unknown before it is shown as
// failed: a single lost request means little (DESIGN section 4).
const Grace = 60 * time.Second
