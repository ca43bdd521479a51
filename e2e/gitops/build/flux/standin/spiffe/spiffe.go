// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package spiffe stands in for github.com/fluxcd/pkg/spiffe, by which kustomize-controller speaks mutual TLS with the identities of
// SPIFFE where its flags say so. This can only refuse.
package spiffe

import (
	"crypto/tls"
	"errors"

	"github.com/spiffe/go-spiffe/v2/workloadapi"
)

// The controller's flags.
const (
	ControllerFlagAuthorizedArtifactServerSPIFFEID = "authorized-artifact-server-spiffe-id"
	ControllerFlagAuthorizedEventServerSPIFFEID    = "authorized-event-server-spiffe-id"
	ControllerFlagSPIFFEBrokerEndpoint             = "spiffe-broker-endpoint"
	ControllerFlagSPIFFEBrokerID                   = "spiffe-broker-id"
)

// ErrNotSupported is returned when SPIFFE is asked for.
var ErrNotSupported = errors.New("this build of the controller cannot use SPIFFE")

// BuildTLSConfig refuses.
func BuildTLSConfig(*workloadapi.X509Source, ...string) (*tls.Config, error) {
	return nil, ErrNotSupported
}
