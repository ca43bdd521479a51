// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package confirm

import (
	"context"
	"time"

	urfave "github.com/urfave/cli/v2"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/cli"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/clusters"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/confirmations"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// RestoreCommand describes the command restore to the flag library.
func RestoreCommand(g *cli.Globals) *urfave.Command {
	return &urfave.Command{
		Name:  "restore",
		Usage: "let a cluster go on that was restored from a backup",
		Subcommands: []*urfave.Command{{
			Name:  "confirm",
			Usage: "say that what this cluster has now is what it is to have",
			Description: `An API server that was restored from a backup, or whose CRDs were deleted, lacks what was created since, and nobody
takes that for deleted until this is run in that cluster. Bring back first what is missing and is to stay: docs/restore.md tells
how. One confirmation is enough for the whole group. Its agent must have said that it waits; if only others say so, because it
has not noticed, give --yes.

Exit code: 0 confirmed, and the agent goes on; 3 confirmed, and the agent has not gone on in time; 1 it does not wait, or
it cannot be done.`,
			Flags: []urfave.Flag{
				&urfave.BoolFlag{Name: "yes", Usage: "also where the agent of this cluster does not wait, because only others have noticed"},
				&urfave.BoolFlag{Name: "dry-run", Usage: "say what would be confirmed, and change nothing"},
				&urfave.DurationFlag{Name: "timeout", Value: time.Minute, Usage: "how long to wait until the agent goes on"},
			},
			Action: func(c *urfave.Context) error {
				if err := cli.NoArguments(c); err != nil {
					return err
				}
				return g.Run(c, &RestoreOptions{Access: clusters.AccessOf(g), Yes: c.Bool("yes"), DryRun: c.Bool("dry-run"), Timeout: c.Duration("timeout")})
			},
		}},
		Action: cli.OnlySubcommands,
	}
}

// RestoreOptions are which cluster goes on: the one of Access.
type RestoreOptions struct {
	clusters.Access

	Yes     bool // also where its agent does not wait
	DryRun  bool
	Timeout time.Duration
}

// Validate checks what can be checked without a cluster.
func (o *RestoreOptions) Validate() error { return cli.CheckTimeout(o.Timeout) }

// Run confirms the restore, and waits until the agent goes on.
func (o *RestoreOptions) Run(ctx context.Context, out *cli.Output) error {
	progress := out.Progress()
	c, err := o.Open()
	if err != nil {
		return err
	}
	u, err := c.Local(ctx)
	if err != nil {
		return err
	}
	own, err := clusters.DecodeCluster(u)
	if err != nil {
		return err
	}
	if !confirmations.WaitsForRestore(own) && !o.Yes {
		return c.Errorf("cluster %s does not wait for a confirmation, or cannot take one yet (%s); if only other clusters say that it was restored, give --yes", own.Name, waitsFor(own))
	}
	result := confirmed{Context: c.Context, Cluster: own.Name, DryRun: o.DryRun}
	// The value must be one that was not there before.
	if err := c.Annotate(ctx, u, map[string]string{v1alpha1.AnnotationConfirmRestore: time.Now().UTC().Format(time.RFC3339Nano)}, clusters.DryRun(o.DryRun)...); err != nil {
		return err
	}
	if o.DryRun {
		progress("context %s: the restore of cluster %s would be confirmed", c.Context, own.Name)
		return out.Result(result)
	}
	progress("context %s: the restore of cluster %s is confirmed", c.Context, own.Name)
	wait := cli.Wait{Timeout: o.Timeout, Progress: progress}
	err = wait.For(ctx, "the restore is confirmed, but after %s the agent has not gone on:", func(ctx context.Context) ([]string, error) {
		u, err := c.Local(ctx)
		if err != nil {
			return nil, err
		}
		if own, err = clusters.DecodeCluster(u); err != nil || !confirmations.WaitsForRestore(own) {
			return nil, err
		}
		return []string{"its agent still says: " + waitsFor(own)}, nil
	})
	if err != nil {
		return err
	}
	progress("cluster %s goes on from what it has now", own.Name)
	return out.Result(result)
}

// waitsFor is what the agent says of the cluster that it is in.
func waitsFor(own *v1alpha1.Cluster) string {
	if cond := clusters.Condition(own, v1alpha1.ConditionReady); cond != nil {
		return clusters.Bound(clusters.Explain(cond))
	}
	return "its agent has said nothing yet"
}
