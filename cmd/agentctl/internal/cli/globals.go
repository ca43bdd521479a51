// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	urfave "github.com/urfave/cli/v2"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// Globals are the flags that every command takes.
type Globals struct {
	Kubeconfig, Context, As, Namespace, Output *Value
}

// NewGlobals returns the flags with their defaults.
func NewGlobals() *Globals {
	return &Globals{
		Kubeconfig: &Value{},
		Context:    &Value{},
		As:         &Value{},
		Namespace:  &Value{text: v1alpha1.DefaultNamespace},
		Output:     &Value{text: formatTable},
	}
}

// Flags describes the flags to the flag library.
func (g *Globals) Flags() []urfave.Flag {
	return []urfave.Flag{
		&urfave.GenericFlag{Name: "kubeconfig", Value: g.Kubeconfig, Usage: "kubeconfig `FILE` (default: $KUBECONFIG, then ~/.kube/config)"},
		&urfave.GenericFlag{Name: "context", Value: g.Context, Usage: "`CONTEXT` of the kubeconfig that leads to the cluster (default: its current one)"},
		&urfave.GenericFlag{Name: "as", Value: g.As, Usage: "act as this `USER`, if the context's own may impersonate it"},
		&urfave.GenericFlag{Name: "namespace", Aliases: []string{"n"}, Value: g.Namespace, Usage: "`NAMESPACE` that the agent is installed in"},
		&urfave.GenericFlag{Name: "output", Aliases: []string{"o"}, Value: g.Output, Usage: "`FORMAT` of the output: table, json, yaml or jsonpath=TEMPLATE; for lists also wide or name"},
	}
}

// AddTo gives a command and what is below it the same flags once more, bound to the same values: this is what
// lets them stand on either side of the command's name.
func (g *Globals) AddTo(c *urfave.Command) {
	for _, f := range g.Flags() {
		if !slices.ContainsFunc(c.Flags, func(own urfave.Flag) bool { return own.Names()[0] == f.Names()[0] }) {
			c.Flags = append(c.Flags, f)
		}
	}
	c.OnUsageError = OnUsageError
	c.HideHelpCommand = true
	for _, sub := range c.Subcommands {
		g.AddTo(sub)
	}
}

// Options are what a command is to do. They are complete when Validate returns nil.
type Options interface {
	Validate() error
	Run(ctx context.Context, out *Output) error
}

// formats are what --output may be for most commands. The first one is the default.
func formats() []string { return []string{formatTable, "json", "yaml", formatJSONPath} }

// ListFormats are what --output may be for a command that lists things.
func ListFormats() []string {
	return []string{formatTable, formatWide, formatName, "json", "yaml", formatJSONPath}
}

// Run runs a command on the streams of c. One that prints in other formats has a method Formats, which says which.
func (g *Globals) Run(c *urfave.Context, o Options) error {
	allowed := formats()
	if own, ok := o.(interface{ Formats() []string }); ok {
		allowed = own.Formats()
	}
	format, template := allowed[0], ""
	if g.Output.set {
		format, template, _ = strings.Cut(g.Output.text, "=")
	}
	if !slices.Contains(allowed, format) || (format == formatJSONPath) != (template != "") {
		return Usagef("invalid value %q for flag -o: must be one of %s", g.Output.text, strings.ReplaceAll(strings.Join(allowed, ", "), formatJSONPath, formatJSONPath+"=TEMPLATE"))
	}
	out := &Output{Stdout: c.App.Writer, Stderr: Printable{c.App.ErrWriter}, Format: format}
	if template != "" {
		var err error
		if out.template, err = asTemplate(template); err != nil {
			return err
		}
	}
	if err := o.Validate(); err != nil {
		return err
	}
	return o.Run(c.Context, out)
}

// Named tells whether the user said which cluster is meant.
func (g *Globals) Named() bool { return g.Context.set || g.Kubeconfig.set }

// OnUsageError turns what the flag library says of a command line into an error of Usagef.
func OnUsageError(_ *urfave.Context, err error, _ bool) error {
	text := err.Error()
	if name, found := strings.CutPrefix(text, "flag provided but not defined: -"); found {
		text = fmt.Sprintf("unknown flag -%s", strings.TrimPrefix(name, "-"))
	}
	return usageError{text}
}

// NoArguments refuses arguments of a command that takes none.
func NoArguments(c *urfave.Context) error {
	if c.Args().Present() {
		return Usagef("%s takes no argument, and %q is one", c.Command.Name, c.Args().First())
	}
	return nil
}

// OnlySubcommands is what a command does that is only a name for those below it: it shows them, and refuses others.
func OnlySubcommands(c *urfave.Context) error {
	if c.Args().Present() {
		return Usagef("unknown command %q; `agentctl %s --help` lists the commands", c.Command.Name+" "+c.Args().First(), c.Command.Name)
	}
	return urfave.ShowSubcommandHelp(c)
}

// Value is a string flag that two flag sets share: the one before and the one after the command's name.
type Value struct {
	text string
	set  bool
}

// Set refuses a second, different value: of two contexts, the one meant is not ours to guess.
func (v *Value) Set(text string) error {
	if v.set && v.text != text {
		return fmt.Errorf("given twice, as %q and as %q", v.text, text)
	}
	v.text, v.set = text, true
	return nil
}

// IsSet tells whether the user gave the flag.
func (v *Value) IsSet() bool { return v.set }

func (v *Value) String() string {
	if v == nil {
		return ""
	}
	return v.text
}
