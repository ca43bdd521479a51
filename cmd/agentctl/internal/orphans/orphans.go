// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package orphans is the command orphans: it lists the copies that no agent maintains any more, and the rules of clusters that
// are not in the group any more, and takes them over or deletes them. What a Secret holds is never shown.
package orphans

import (
	"context"

	urfave "github.com/urfave/cli/v2"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/byname"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/cli"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/clusters"
)

// Command describes the command to the flag library.
func Command(g *cli.Globals) *urfave.Command {
	return &urfave.Command{
		Name:  "orphans",
		Usage: "list, take over or delete what no agent maintains any more",
		Subcommands: []*urfave.Command{
			{
				Name:      "list",
				Usage:     "list the copies and rules of a cluster that no agent maintains any more",
				ArgsUsage: "[KIND/NAME...]",
				Description: `Looks at the objects of all kinds that can be listed, or at those named. Copies become orphans when their cluster leaves or is
removed, or when their rule or their source is gone and its policy says Orphan. A rule that is an orphan is paused.

Exit code: 0 everything was looked at; 6 some kinds may not be listed, or a group of kinds does not answer; 1 it cannot be done.`,
				Flags: flags(g),
				Action: func(c *urfave.Context) error {
					return g.Run(c, &ListOptions{optionsOf(c, g)})
				},
			},
			act(g, adopt(), "make them objects of this cluster, which no agent touches", `Removes the marks of agents from orphans. An object is this cluster's own then: no rule writes to it, and a rule that wants its
place reports a conflict. A rule is this cluster's own then, too: it is in force again and is published to the group.`),
			act(g, remove(), "delete them", `Deletes orphans, unless they have changed since they were read: a rule may have taken one up again. More goes with a rule or a
Namespace, so --all leaves these out: name them. A rule whose end deletes copies that are no orphans needs --yes.`),
		},
		Action: cli.OnlySubcommands,
	}
}

func act(g *cli.Globals, verb verb, usage, description string) *urfave.Command {
	more := append(flags(g),
		&urfave.BoolFlag{Name: "all", Usage: "all that orphans list shows"},
		&urfave.BoolFlag{Name: "dry-run", Usage: "say what would be done, and change nothing"},
	)
	if verb.deletes {
		more = append(more, &urfave.BoolFlag{Name: "yes", Usage: "also a rule whose end deletes copies that are no orphans"})
	}
	return &urfave.Command{
		Name:      verb.name,
		Usage:     usage,
		ArgsUsage: "KIND/NAME... | --all",
		Description: description + `

KIND is written as for kubectl: secret, cm, deploy.apps, rsr for rules.

Exit code: 0 done; 6 done, and with --all some kinds could not be looked at; 1 one that is named is no orphan, or it cannot be
done. Those before it are done, then.`,
		Flags: more,
		Action: func(c *urfave.Context) error {
			return g.Run(c, &ActOptions{Options: optionsOf(c, g), verb: verb, All: c.Bool("all"), DryRun: c.Bool("dry-run"), Yes: c.Bool("yes")})
		},
	}
}

func flags(g *cli.Globals) []urfave.Flag {
	return []urfave.Flag{
		&urfave.GenericFlag{Name: "namespace", Aliases: []string{"n"}, Value: g.Namespace, DefaultText: "all, or with names the context's, then default", Usage: "`NAMESPACE` of the objects"},
	}
}

// Options are which orphans are meant.
type Options struct {
	clusters.Access

	Objects   []string // KIND/NAME; none for all
	Namespace string   // "" for all, and of objects that are named for the context's
}

func optionsOf(c *urfave.Context, g *cli.Globals) Options {
	o := Options{Access: clusters.AccessOf(g), Objects: c.Args().Slice()}
	if g.Namespace.IsSet() {
		o.Namespace = g.Namespace.String()
	}
	return o
}

// Validate checks what can be checked without a cluster.
func (o *Options) Validate() error { return byname.Validate(o.Objects) }

// ListOptions are which orphans are listed.
type ListOptions struct{ Options }

// Formats are what --output may be.
func (o *ListOptions) Formats() []string { return cli.ListFormats() }

// Run prints the orphans, and returns an AnswerError unless everything was looked at.
func (o *ListOptions) Run(ctx context.Context, out *cli.Output) error {
	c, err := o.Open()
	if err != nil {
		return err
	}
	found, err := o.find(ctx, c)
	if err != nil {
		return err
	}
	if err := found.print(out); err != nil {
		return err
	}
	if len(found.Unknown) > 0 {
		return cli.Answerf(cli.ExitUnknown, "there may be more: %s", cli.First(found.Unknown))
	}
	return nil
}
