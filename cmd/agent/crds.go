// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"

	"github.com/urfave/cli/v2"

	"github.com/roster-mesh/roster/agent/install"
)

// crdsCommand is `agent crds`. The chart's upgrade hook runs `agent crds apply`.
func crdsCommand(stderr io.Writer, usage cli.OnUsageErrorFunc) *cli.Command {
	return &cli.Command{
		Name:         "crds",
		Usage:        "the CustomResourceDefinitions that this agent needs",
		OnUsageError: usage,
		Action: func(*cli.Context) error {
			return fmt.Errorf("%w: crds takes a command: apply", errUsage)
		},
		Subcommands: []*cli.Command{{
			Name:         "apply",
			Usage:        "bring the CRDs of the cluster up to this agent's version; newer ones stay, none is deleted",
			OnUsageError: usage,
			Flags: []cli.Flag{
				&cli.StringFlag{Name: "kubeconfig", Usage: "`FILE` for the cluster; without one, the in-cluster configuration", EnvVars: env("kubeconfig")},
				&cli.StringFlag{Name: "log-format", Value: "text", Usage: "json or text", EnvVars: env("log-format")},
			},
			Action: func(c *cli.Context) error {
				if c.Args().Present() {
					return fmt.Errorf("%w: crds apply takes flags only, and %q is none", errUsage, c.Args().First())
				}
				log, err := newLogger(stderr, c.String("log-format"), "info")
				if err != nil {
					return fmt.Errorf("%w: %w", errUsage, err)
				}
				return install.ApplyCRDs(c.Context, c.String("kubeconfig"), version, log)
			},
		}},
	}
}
