// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	urfave "github.com/urfave/cli/v2"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// newApp is the command tree. Each call gives a tree with flags of its own.
func newApp(stdout, stderr io.Writer) *urfave.App {
	g := newGlobals()
	app := &urfave.App{
		Name:                 "agentctl",
		Usage:                "look at a group of clusters and join clusters to it",
		HideVersion:          true,
		EnableBashCompletion: true,
		Writer:               stdout,
		ErrWriter:            stderr,
		Flags:                g.flags(),
		OnUsageError:         onUsageError,
		// run prints the one line and chooses the exit code.
		ExitErrHandler: func(*urfave.Context, error) {},
		// Reached only when no command of the given name exists.
		Action: func(c *urfave.Context) error {
			if c.Args().Present() {
				return usagef("unknown command %q; `agentctl help` lists the commands", c.Args().First())
			}
			return urfave.ShowAppHelp(c)
		},
		Commands: []*urfave.Command{
			joinCommand(g),
			leaveCommand(g),
			removeCommand(g),
			membersCommand(g),
			clustersCommand(g),
			statusCommand(g),
			doctorCommand(g),
			groupCommand(g),
			rulesCommand(g),
			versionCommand(g),
			completionCommand(),
		},
	}
	for _, c := range app.Commands {
		g.addTo(c)
	}
	return app
}

// addTo gives a command and what is below it the same flags once more, bound to the same values: this is what
// lets them stand on either side of the command's name.
func (g *globals) addTo(c *urfave.Command) {
	for _, f := range g.flags() {
		if !slices.ContainsFunc(c.Flags, func(own urfave.Flag) bool { return own.Names()[0] == f.Names()[0] }) {
			c.Flags = append(c.Flags, f)
		}
	}
	c.OnUsageError = onUsageError
	c.HideHelpCommand = true
	for _, sub := range c.Subcommands {
		g.addTo(sub)
	}
}

func onUsageError(_ *urfave.Context, err error, _ bool) error {
	text := err.Error()
	if name, found := strings.CutPrefix(text, "flag provided but not defined: -"); found {
		text = fmt.Sprintf("unknown flag -%s", strings.TrimPrefix(name, "-"))
	}
	return usageError{text}
}

// noArguments is the first thing that a command without arguments does.
func noArguments(c *urfave.Context) error {
	if c.Args().Present() {
		return usagef("%s takes no argument, and %q is one", c.Command.Name, c.Args().First())
	}
	return nil
}

// globals are the flags that every command takes.
type globals struct {
	kubeconfig, context, namespace, output *value
}

func newGlobals() *globals {
	return &globals{
		kubeconfig: &value{},
		context:    &value{},
		namespace:  &value{text: v1alpha1.DefaultNamespace},
		output:     &value{text: "table", allowed: []string{"table", "json", "yaml"}},
	}
}

func (g *globals) flags() []urfave.Flag {
	return []urfave.Flag{
		&urfave.GenericFlag{Name: "kubeconfig", Value: g.kubeconfig, Usage: "kubeconfig `FILE` (default: $KUBECONFIG, then ~/.kube/config)"},
		&urfave.GenericFlag{Name: "context", Value: g.context, Usage: "`CONTEXT` of the kubeconfig that leads to the cluster (default: its current one)"},
		&urfave.GenericFlag{Name: "namespace", Aliases: []string{"n"}, Value: g.namespace, Usage: "`NAMESPACE` that the agent is installed in"},
		&urfave.GenericFlag{Name: "output", Aliases: []string{"o"}, Value: g.output, Usage: "`FORMAT` of the output: table, json or yaml"},
	}
}

// value is a string flag that two flag sets share: the one before and the one after the command's name.
type value struct {
	text    string
	allowed []string
	set     bool
}

// Set refuses a second, different value: of two contexts, the one meant is not ours to guess.
func (v *value) Set(text string) error {
	if v.set && v.text != text {
		return fmt.Errorf("given twice, as %q and as %q", v.text, text)
	}
	if !v.accepts(text) {
		return fmt.Errorf("must be one of %s", strings.Join(v.allowed, ", "))
	}
	v.text, v.set = text, true
	return nil
}

func (v *value) accepts(text string) bool {
	return v.allowed == nil || slices.Contains(v.allowed, text)
}

func (v *value) String() string {
	if v == nil {
		return ""
	}
	return v.text
}
