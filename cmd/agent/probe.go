// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"

	"github.com/urfave/cli/v2"

	"github.com/roster-mesh/roster/agent/probe"
)

// probeCommand is `agent probe`. The chart's test runs it.
func probeCommand(stdout io.Writer, usage cli.OnUsageErrorFunc) *cli.Command {
	return &cli.Command{
		Name:         "probe",
		Usage:        "ask a running agent whether it is ready, its mesh port answers, and whom it reaches",
		OnUsageError: usage,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "http", Value: "http://127.0.0.1:8080", Usage: "`URL` of its HTTP port"},
			&cli.StringFlag{Name: "mesh", Value: "127.0.0.1:7946", Usage: "`HOST:PORT` of its mesh port"},
		},
		Action: func(c *cli.Context) error {
			if c.Args().Present() {
				return fmt.Errorf("%w: probe takes flags only, and %q is none", errUsage, c.Args().First())
			}
			return probe.Run(c.Context, stdout, c.String("http"), c.String("mesh"))
		},
	}
}
