// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"errors"
	"strings"

	"github.com/roster-mesh/roster/agent/apiconn"
	"github.com/roster-mesh/roster/kube"
)

// accessError is an error with the state of the access that follows from it.
type accessError struct {
	access apiconn.Access
	err    error
}

func (e *accessError) Error() string { return strings.TrimSpace(e.err.Error()) }
func (e *accessError) Unwrap() error { return e.err }

// cannotBeReached is all that a status says of an API server that does not answer. Members read that status, and a member
// chooses the address that is dialled: told whether a connection was refused or a server was silent, it could scan the
// ports of this network. The log has the cause.
const cannotBeReached = "its API server cannot be reached; the log of the agent here says why"

// unreachableError is kube.ErrUnreachable without its cause.
type unreachableError struct{}

func (unreachableError) Error() string        { return cannotBeReached }
func (unreachableError) Is(target error) bool { return target == kube.ErrUnreachable }

// shown is what a status may say of an error of a peer's API server.
func shown(err error) error {
	if errors.Is(err, kube.ErrUnreachable) {
		return unreachableError{}
	}
	return err
}

func accessOf(err error) apiconn.Access {
	var a *accessError
	switch {
	case errors.As(err, &a):
		return a.access
	case errors.Is(err, kube.ErrWrongCluster):
		return apiconn.Wrong
	case errors.Is(err, kube.ErrUnauthorized), errors.Is(err, kube.ErrForbidden):
		return apiconn.Invalid
	}
	return apiconn.Unreachable
}
