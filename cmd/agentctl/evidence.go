// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"io"
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
			return documentOf(ctx, &doctor.Options{
				Access: o.Access, PeerContexts: o.Contexts, Namespace: o.Namespace, ServiceAccount: v1alpha1.DefaultServiceAccount,
				StuckAfter: 10 * time.Minute, Timeout: o.Timeout,
			})
		},
		Version: func(ctx context.Context, o *bundle.Options) ([]byte, error) {
			return documentOf(ctx, &versioncmd.Options{Access: o.Access, Build: build})
		},
	}
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
