// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/urfave/cli/v2"
)

// version is set by the linker (-X main.version=…) in a release; else the Go toolchain knows.
var version string

func versionCommand(g *globals) *cli.Command {
	return &cli.Command{
		Name:  "version",
		Usage: "print the version of this program",
		Action: func(c *cli.Context) error {
			if err := noArguments(c); err != nil {
				return err
			}
			v := struct {
				Version  string `json:"version"`
				Go       string `json:"go"`
				Platform string `json:"platform"`
			}{versionText(), runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH}
			if g.output.text != "table" {
				return printDocument(c.App.Writer, g.output.text, v)
			}
			_, err := fmt.Fprintf(c.App.Writer, "agentctl %s (%s, %s)\n", v.Version, v.Go, v.Platform)
			return err
		},
	}
}

func versionText() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}
