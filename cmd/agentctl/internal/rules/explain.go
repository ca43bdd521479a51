// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"strings"

	urfave "github.com/urfave/cli/v2"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/cli"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/clusters"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/fleet"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/rules/explain"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/rules/lint"
)

func explainCommand(g *cli.Globals) *urfave.Command {
	return &urfave.Command{
		Name:      "explain",
		Usage:     "say why something is copied, or why it is not",
		ArgsUsage: "RULE | KIND NAME | KIND/NAME | -f FILE",
		Description: `For a rule: which clusters it goes to and comes from, what it selects there, and how the copies here
stand. For an object: which rules select it and, where one does not, which field says no; where its
copies are or would be, and who owns them. KIND is written as for kubectl: secret, cm, deploy.apps.
For a file (-f): the same for rules and objects that nobody has applied yet. A rule of a file stands in
for the one of its name; an object of a file is taken as one of this cluster (or --from another).

Differences are shown as a unified diff between what is there and what would be, after a dry run by
the API server where you may write there. What Secrets hold is never shown: only sizes, and hashes that
are comparable within one output.

Nothing is written. Other clusters are read with the credentials that this one holds, if you may read
those Secrets, or by --peer-context. What cannot be found out is said to be unknown, with the reason.

With --fleet a rule is explained for every member, by what its own agent says and how the copies there stand; of
members where all is well one line is shown, and everything with -o json.

Exit code: 0 at least one copy is or would be in sync, and nothing is blocked; 4 nothing is selected;
5 something blocks a copy; 6 unknown, with --fleet also if one member could not be asked; 1 an error, such as a rule in a file that does not
compile; 2 a wrong command line.

  agentctl rules explain web-certs
  agentctl rules explain secret web-tls -n shop
  agentctl rules explain -f rule.yaml --peer-context cluster-2=admin@cluster-2`,
		Flags: append([]urfave.Flag{
			&urfave.StringSliceFlag{Name: "filename", Aliases: []string{"f"}, Usage: "`FILE` with rules and objects not yet applied; - for standard input; may be repeated"},
			&urfave.GenericFlag{Name: "namespace", Aliases: []string{"n"}, Value: g.Namespace, DefaultText: "the context's, then default", Usage: "`NAMESPACE` of the object"},
			&urfave.StringSliceFlag{Name: "peer-context", Usage: "reach a cluster by a context of your own, `NAME=CONTEXT`; may be repeated"},
			&urfave.StringFlag{Name: "from", Usage: "take the objects of files as ones of this `CLUSTER`"},
			&urfave.BoolFlag{Name: "no-dry-run", Usage: "show what would be written without asking API servers what they make of it"},
			&urfave.IntFlag{Name: "limit", Value: 20, Usage: "how many copies of a rule are shown one by one, each with a dry run"},
			&urfave.StringFlag{Name: "network-name", Value: "default", Usage: "`NAME` of the network that this computer is in, which chooses among the addresses of a cluster"},
		}, append(fleet.Flags(), lint.ConsentFlags()...)...),
		Action: func(c *urfave.Context) error {
			o, err := explainOptions(c, g)
			if err != nil {
				return err
			}
			return g.Run(c, o)
		},
	}
}

func explainOptions(c *urfave.Context, g *cli.Globals) (*explain.Options, error) {
	o := &explain.Options{
		Access: clusters.AccessOf(g), Subject: c.Args().Slice(), Files: c.StringSlice("filename"), Stdin: c.App.Reader, From: c.String("from"),
		PeerContexts: map[string]string{}, Network: c.String("network-name"), NoDryRun: c.Bool("no-dry-run"), Limit: c.Int("limit"),
	}
	if g.Namespace.IsSet() {
		o.Namespace = g.Namespace.String()
	}
	for _, text := range c.StringSlice("peer-context") {
		name, context, found := strings.Cut(text, "=")
		if !found || name == "" || context == "" {
			return nil, cli.Usagef("--peer-context must be NAME=CONTEXT, and is %q", text)
		}
		o.PeerContexts[name] = context
	}
	var err error
	if o.Fleet, err = fleet.Of(c, o.Access); err != nil {
		return nil, err
	}
	o.Consent, err = lint.ConsentOf(c)
	return o, err
}
