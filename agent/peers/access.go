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
