// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package removals is the command removals: it lists the removals that other members ordered and nobody has confirmed, and
// confirms them.
package removals

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	urfave "github.com/urfave/cli/v2"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/cli"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/clusters"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/kube/api/v1alpha1/unconfirmed"
)

// Command describes the command to the flag library.
func Command(g *cli.Globals) *urfave.Command {
	return &urfave.Command{
		Name:  "removals",
		Usage: "look at the removals that other members ordered, and confirm them",
		Subcommands: []*urfave.Command{
			{
				Name:  "list",
				Usage: "list the removals by other members that nobody has confirmed in this cluster",
				Description: `Of the removals that one member orders, few take effect in another cluster: those beyond that are held, and end nothing until a
person there confirms them. Those in effect count for the member that ordered them until they are confirmed, too.

Exit code: 0 listed; 1 it cannot be done.`,
				Action: func(c *urfave.Context) error {
					return g.Run(c, &ListOptions{clusters.AccessOf(g)})
				},
			},
			{
				Name:      "confirm",
				Usage:     "say that removals are meant",
				ArgsUsage: "NAME... | --by MEMBER | --all",
				Description: `Confirms the removals of the clusters NAME, or all those that the cluster MEMBER ordered. Those that are held take effect, and none
of them counts for its author any more. Look at them first: if nobody ordered them, the key of their author may have been stolen.
Remove that one instead: agentctl remove MEMBER.

Anybody makes up a removal whose author is no member. Such a one is confirmed only if its name and key are given: NAME/KEY.

If the cluster is an authority of others (trust.authorities, which must name it in the cluster itself, too), they take the
removals on its word.

Exit code: 0 confirmed, and in effect; 3 confirmed, and an agent has not carried them out in time; 2 there is no such removal;
1 it cannot be done.`,
				Flags: []urfave.Flag{
					&urfave.StringFlag{Name: "contexts", Usage: "`CONTEXTS` of several members that confirm them, separated by commas, in place of --context"},
					&urfave.StringFlag{Name: "by", Usage: "name or clusterID of the `MEMBER` that ordered them"},
					&urfave.BoolFlag{Name: "all", Usage: "all that removals list shows, but those whose author is no member"},
					&urfave.BoolFlag{Name: "dry-run", Usage: "say what would be confirmed, and change nothing"},
					&urfave.DurationFlag{Name: "timeout", Value: time.Minute, Usage: "how long to wait until they are in effect"},
				},
				Action: func(c *urfave.Context) error {
					o := &ConfirmOptions{Access: clusters.AccessOf(g), Names: c.Args().Slice(), By: c.String("by"), All: c.Bool("all"), DryRun: c.Bool("dry-run"), Timeout: c.Duration("timeout")}
					if c.IsSet("contexts") {
						o.Contexts = strings.Split(c.String("contexts"), ",")
					}
					return g.Run(c, o)
				},
			},
		},
		Action: cli.OnlySubcommands,
	}
}

// removal is one for a program. Its JSON is stable: fields are only ever added.
type removal struct {
	Name        string `json:"name"`
	ClusterID   string `json:"clusterID"`
	Key         string `json:"key"`
	By          string `json:"by"`
	ByClusterID string `json:"byClusterID"`
	ByKey       string `json:"byKey,omitempty"`
	State       string `json:"state"`
}

// ListOptions are where removals are listed.
type ListOptions struct{ clusters.Access }

// Validate checks nothing.
func (o *ListOptions) Validate() error { return nil }

// Formats are what --output may be.
func (o *ListOptions) Formats() []string { return cli.ListFormats() }

// Run prints the removals.
func (o *ListOptions) Run(ctx context.Context, out *cli.Output) error {
	at, err := o.Open()
	if err != nil {
		return err
	}
	_, all, err := read(ctx, at)
	if err != nil {
		return err
	}
	var names []string
	var rows [][]string
	for _, r := range all {
		names = append(names, r.Name)
		rows = append(rows, []string{r.Name, r.ClusterID, r.Key, r.By, r.State})
	}
	switch {
	case out.Names("clusters", names):
		return nil
	case out.Format == "name":
		return nil
	case !out.ForPeople():
		return out.Document(struct {
			Removals []removal `json:"removals"`
		}{all})
	case len(rows) == 0:
		fmt.Fprintln(out.Stderr, "no removals by other members, but those that were confirmed")
		return nil
	}
	return cli.PrintTable(out.Stdout, []string{"NAME", "ID", "KEY", "BY", "STATE"}, rows)
}

// read lists the removals that nobody has confirmed in a cluster, as its own Cluster object has them.
func read(ctx context.Context, at *clusters.Client) (own *unstructured.Unstructured, all []removal, err error) {
	if own, err = at.Local(ctx); err != nil {
		return nil, nil, err
	}
	cluster, err := clusters.DecodeCluster(own)
	if err != nil {
		return nil, nil, err
	}
	all = []removal{}
	if cond := clusters.Condition(cluster, v1alpha1.ConditionRemovalsInEffect); cond != nil {
		for _, r := range unconfirmed.Parse(cond.Message) {
			all = append(all, removal{r.Name, r.ClusterID, r.Fingerprint, r.By, r.ByClusterID, r.ByKey, r.State})
		}
	}
	return own, all, nil
}

// Names are those of the clusters whose removal nobody has confirmed; none where that cannot be told.
func Names(ctx context.Context, access clusters.Access) (names []string) {
	at, err := access.Open()
	if err != nil {
		return nil
	}
	_, all, err := read(ctx, at)
	if err != nil {
		return nil
	}
	for _, r := range all {
		names = append(names, r.Name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}
