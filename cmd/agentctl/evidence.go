// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"time"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/bundle"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/cli"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/doctor"
	versioncmd "github.com/roster-mesh/roster/cmd/agentctl/internal/version"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// bundleUses is what the bundle has of other commands, which it does not know.
func bundleUses(build versioncmd.Build) bundle.Uses {
	return bundle.Uses{
		Doctor: func(ctx context.Context, o *bundle.Options) ([]byte, error) {
			asked, err := doctorOptions(o)
			if err != nil {
				return nil, err
			}
			return documentOf(ctx, asked)
		},
		Version: func(ctx context.Context, o *bundle.Options) ([]byte, error) {
			return documentOf(ctx, &versioncmd.Options{Access: o.Access, Build: build})
		},
	}
}

// doctorOptions has doctor end before the bundle does, so that it says what it has found by then, and name each cluster once.
func doctorOptions(o *bundle.Options) (*doctor.Options, error) {
	own, err := o.Open()
	if err != nil {
		return nil, err
	}
	var others []string
	for _, name := range o.Contexts {
		if name != own.Context && !slices.Contains(others, name) {
			others = append(others, name)
		}
	}
	return &doctor.Options{
		Access: o.Access, PeerContexts: others, Namespace: o.Namespace, ServiceAccount: v1alpha1.DefaultServiceAccount,
		StuckAfter: 10 * time.Minute, Timeout: o.Timeout * 9 / 10,
	}, nil
}

// documentOf is what a command prints as JSON, whatever it answers by its exit code.
func documentOf(ctx context.Context, o cli.Options) ([]byte, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	var document bytes.Buffer
	err := o.Run(ctx, &cli.Output{Stdout: &document, Stderr: io.Discard, Format: "json"})
	if _, answered := errors.AsType[*cli.AnswerError](err); err != nil && !answered {
		return nil, err
	}
	return document.Bytes(), nil
}
