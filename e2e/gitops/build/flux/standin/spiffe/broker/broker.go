// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package broker stands in for github.com/fluxcd/pkg/spiffe/broker, the client of a broker of identities. There is none: New refuses.
package broker

import (
	"context"

	"github.com/fluxcd/pkg/spiffe"
	"github.com/spiffe/go-spiffe/v2/svid/jwtsvid"
	"github.com/spiffe/go-spiffe/v2/workloadapi"
)

// KubernetesObjectReference names the object that an identity is for.
type KubernetesObjectReference struct{ Group, Kind, Namespace, Name, UID string }

// Interface fetches identities.
type Interface interface {
	FetchJWTSVID(context.Context, KubernetesObjectReference, []string) (*jwtsvid.SVID, error)
}

// Client is an Interface with a connection.
type Client interface {
	Interface
	Close() error
}

// New refuses.
func New(string, []string, *workloadapi.X509Source) (Client, error) {
	return nil, spiffe.ErrNotSupported
}
