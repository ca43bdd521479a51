// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
	"strings"

	urfave "github.com/urfave/cli/v2"

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

// finding is an answer that is not yes: the command could be done, and its exit code tells what it found.
type finding struct {
	code int
	text string
}

func (f finding) Error() string { return f.text }

func findingf(code int, format string, args ...any) error {
	return finding{code, fmt.Sprintf(format, args...)}
}

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

const completionFlag = "--generate-bash-completion"

// flagsFirst puts the flags of a command before its arguments, so that they may stand anywhere: the flag
// library reads none after the first argument. What follows "--" is left alone.
func flagsFirst(app *urfave.App, args []string) []string {
	if len(args) == 0 {
		return args
	}
	out, arguments := []string{args[0]}, []string{}
	flags, commands := app.Flags, app.Commands
	for i := 1; i < len(args); i++ {
		switch a := args[i]; {
		case a == "--":
			return slices.Concat(out, []string{"--"}, arguments, args[i+1:])
		case strings.HasPrefix(a, "-") && a != "-" && a != completionFlag:
			out = append(out, a)
			if takesValue(flags, a) && i+1 < len(args) && args[i+1] != completionFlag {
				i++
				out = append(out, args[i])
			}
		default:
			at := slices.IndexFunc(commands, func(c *urfave.Command) bool { return c.HasName(a) })
			if at < 0 {
				arguments, commands = append(arguments, a), nil
				continue
			}
			out = append(out, a)
			flags, commands = commands[at].Flags, commands[at].Subcommands
		}
	}
	return append(out, arguments...)
}

// takesValue says that the word after a flag belongs to it.
func takesValue(flags []urfave.Flag, word string) bool {
	name := strings.TrimLeft(word, "-")
	return slices.ContainsFunc(flags, func(f urfave.Flag) bool {
		d, ok := f.(urfave.DocGenerationFlag)
		return ok && d.TakesValue() && slices.Contains(f.Names(), name)
	})
}
