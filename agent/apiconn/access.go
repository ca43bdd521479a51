// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package apiconn

import "time"

// Access is how the agent fares with a peer's API server.
type Access string

// The ways to fare with it.
const (
	Pending     Access = ""                  // not tried yet
	Ready       Access = "Connected"         // the API server behind the endpoint is the peer's
	Disabled    Access = "Disabled"          // a person switched the peer off here
	Missing     Access = "MissingCredential" // no credential yet
	Invalid     Access = "InvalidCredential" // a credential that does not parse or is not accepted
	Unreachable Access = "APIUnreachable"
	Wrong       Access = "WrongCluster" // another cluster answers
)

// AccessState is an access with what a person should know about it. The message is the same for the same
// failure: it must not hold what differs from try to try, or each try would be a write.
type AccessState struct {
	Access  Access
	Message string
	Since   time.Time // by the clock of this machine
}

// Grace is how long a failed member, or an API server that does not answer, is shown as unknown before it
// is shown as failed: one lost request says nothing (DESIGN section 4).
const Grace = 60 * time.Second
