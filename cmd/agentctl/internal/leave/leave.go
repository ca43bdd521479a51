// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package leave is the commands leave and remove: both end a membership, the one from inside and the other for another
// cluster.
package leave

import (
	"context"
	"time"

	urfave "github.com/urfave/cli/v2"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/cli"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/clusters"
)

// Command describes the command leave to the flag library.
func Command(g *cli.Globals) *urfave.Command {
	return &urfave.Command{
		Name:  "leave",
		Usage: "take the cluster of the context out of its group",
		Description: `Ends the membership of the cluster that the context leads to: its Cluster object goes in all other
clusters, and theirs in this one; credentials end on both sides; copies stay where they are, as orphans, and so
do rules of others, which are paused. The agent gives up its key and goes on alone under a new one: agentctl
join makes the cluster a member again, of this group or another. A cluster that was removed gets a new key, too.

Exit code: 0 done; 3 asked for, and the agent did not finish within --timeout; 1 it cannot be done.`,
		Flags: []urfave.Flag{
			&urfave.DurationFlag{Name: "timeout", Value: time.Minute, Usage: "how long to wait until the cluster has left"},
			&urfave.BoolFlag{Name: "dry-run", Usage: "say what would become orphaned, and change nothing"},
		},
		Action: func(c *urfave.Context) error {
			if err := cli.NoArguments(c); err != nil {
				return err
			}
			return g.Run(c, &Options{Access: clusters.AccessOf(g), DryRun: c.Bool("dry-run"), Timeout: c.Duration("timeout")})
		},
	}
}

// Options are which cluster leaves: the one of Access.
type Options struct {
	clusters.Access

	DryRun  bool
	Timeout time.Duration // how long to wait until the cluster has left
}

// Validate checks what can be checked without a cluster.
func (o *Options) Validate() error { return cli.CheckTimeout(o.Timeout) }

// Run has the agent of the cluster give up its key, and waits until it is alone under another.
func (o *Options) Run(ctx context.Context, out *cli.Output) error {
	c, err := o.Open()
	if err != nil {
		return err
	}
	own, err := c.Local(ctx)
	if err != nil {
		return err
	}
	if o.DryRun {
		return showPreview(ctx, c, own, nil, out)
	}
	start := time.Now()
	progress := out.Progress()
	all, err := c.MemberObjects(ctx)
	if err != nil {
		return err
	}
	if len(all) == 1 && clusters.RemovedFrom(own) == "" {
		progress("cluster %s is in no group: there is nothing to leave", own.GetName())
		return out.Result(ended{ClusterID: clusters.IDOf(own), Note: "it was in no group"})
	}
	note, err := c.GiveUpKey(ctx, own, cli.Wait{Timeout: o.Timeout, Progress: progress})
	if err != nil {
		return err
	}
	progress("cluster %s: %s", own.GetName(), note)
	return out.Result(ended{Left: own.GetName(), ClusterID: clusters.IDOf(own), Note: note, Seconds: time.Since(start).Round(time.Millisecond).Seconds()})
}
