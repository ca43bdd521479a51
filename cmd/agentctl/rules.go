// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"

	urfave "github.com/urfave/cli/v2"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/cli"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/syncrules"
)

func rulesCommand(g *globals) *urfave.Command {
	return &urfave.Command{
		Name:  "rules",
		Usage: "list, check and explain the rules that say what is copied",
		Subcommands: []*urfave.Command{
			rulesListCommand(g),
			rulesLintCommand(g),
			rulesExplainCommand(g),
		},
		// Reached only when no subcommand of the given name exists.
		Action: func(c *urfave.Context) error {
			if c.Args().Present() {
				return usagef("unknown command %q; `agentctl rules --help` lists the commands", "rules "+c.Args().First())
			}
			return urfave.ShowSubcommandHelp(c)
		},
	}
}

func findingf(code int, format string, args ...any) error { return cli.Answerf(code, format, args...) }

// consentFlags say what agents are told of in the chart, and cannot be read from a cluster.
func consentFlags() []urfave.Flag {
	return []urfave.Flag{
		&urfave.StringFlag{Name: "agent-namespace", Value: v1alpha1.DefaultNamespace, Usage: "`NAMESPACE` that the agents are installed in"},
		&urfave.StringSliceFlag{Name: "allow", Usage: "what the chart value consent.allow lists, `LIST=ENTRY` such as kinds=Node, secretTypes=helm.sh/release.v1 or namespaces=kube-public; may be repeated"},
	}
}

func consentOf(c *urfave.Context) (syncrules.Consent, error) {
	out := syncrules.Consent{Namespace: c.String("agent-namespace")}
	for _, text := range c.StringSlice("allow") {
		list, entry, _ := strings.Cut(text, "=")
		switch list {
		case "kinds":
			out.Kinds = append(out.Kinds, entry)
		case "secretTypes":
			out.SecretTypes = append(out.SecretTypes, entry)
		case "namespaces":
			out.Namespaces = append(out.Namespaces, entry)
		default:
			return out, usagef("--allow must be kinds=, secretTypes= or namespaces= with an entry, and is %q", text)
		}
	}
	if err := out.Check(); err != nil {
		return out, usagef("--allow: %s", err)
	}
	return out, nil
}

const (
	exitOK      = 0
	exitFailed  = 1
	exitUsage   = 2
	exitTimeout = 3
	// Of the rules commands, see doc.go.
	exitUnmatched = 4
	exitBlocked   = 5
	exitUnknown   = 6
)
