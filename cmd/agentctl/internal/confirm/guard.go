// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package confirm is the commands guard confirm and restore confirm: a person says that what an agent took for a fault is
// meant. Each sets an annotation that counts once.
package confirm

import (
	"context"
	"fmt"
	"strconv"
	"time"

	urfave "github.com/urfave/cli/v2"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/cli"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/clusters"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/confirmations"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/syncrules"
)

// GuardCommand describes the command guard to the flag library.
func GuardCommand(g *cli.Globals) *urfave.Command {
	return &urfave.Command{
		Name:  "guard",
		Usage: "let a rule go on that the deletion guard has stopped",
		Subcommands: []*urfave.Command{{
			Name:      "confirm",
			Usage:     "say that the sources that are missing are really gone",
			ArgsUsage: "RULE",
			Description: `The deletion guard stops a rule in a cluster when many of its sources are missing from a list, which may be a
fault there. Look at the sources first. If they are gone on purpose, this confirms as many deletions as the rule asks for, once:
later losses need another confirmation. With --deletions nothing is confirmed if there are more by now.

Exit code: 0 confirmed, and the rule goes on; 3 confirmed, and the agent has not gone on in time; 1 the guard has not
stopped the rule, or it cannot be done.`,
			Flags: []urfave.Flag{
				&urfave.IntFlag{Name: "deletions", Usage: "`NUMBER` of deletions that are confirmed at most (default: as many as the condition of the rule has)"},
				&urfave.BoolFlag{Name: "dry-run", Usage: "say what would be confirmed, and change nothing"},
				&urfave.DurationFlag{Name: "timeout", Value: time.Minute, Usage: "how long to wait until the rule goes on"},
			},
			Action: func(c *urfave.Context) error {
				if c.Args().Len() != 1 {
					return cli.Usagef("guard confirm needs the name of one rule")
				}
				return g.Run(c, &GuardOptions{
					Access: clusters.AccessOf(g), Rule: c.Args().First(), Deletions: c.Int("deletions"), DryRun: c.Bool("dry-run"), Timeout: c.Duration("timeout"),
				})
			},
		}},
		Action: cli.OnlySubcommands,
	}
}

// GuardOptions are which deletions are confirmed.
type GuardOptions struct {
	clusters.Access // of the cluster where the rule is stopped

	Rule      string
	Deletions int // at most; 0 for as many as the agent asks for
	DryRun    bool
	Timeout   time.Duration
}

// Validate checks what can be checked without a cluster.
func (o *GuardOptions) Validate() error {
	if o.Deletions < 0 {
		return cli.Usagef("--deletions must not be negative, and is %d", o.Deletions)
	}
	return cli.CheckTimeout(o.Timeout)
}

// Run confirms the deletions, and waits until the rule goes on.
func (o *GuardOptions) Run(ctx context.Context, out *cli.Output) error {
	progress := out.Progress()
	c, err := o.Open()
	if err != nil {
		return err
	}
	u, rule, err := c.Rule(ctx, o.Rule)
	if err != nil {
		return err
	}
	ready := clusters.ReadinessOf(rule)
	asked := confirmations.GuardedDeletions(ready)
	switch {
	case asked == 0:
		return c.Errorf("the deletion guard has not stopped rule %s: its agent says %s: %s", o.Rule, ready.Reason, clusters.Bound(ready.Message))
	case o.Deletions > 0 && o.Deletions < asked:
		return c.Errorf("rule %s would delete %d copies by now, and %d were to be confirmed: %s", o.Rule, asked, o.Deletions, clusters.Bound(ready.Message))
	}
	result := confirmed{Context: c.Context, Rule: o.Rule, Deletions: asked, DryRun: o.DryRun}
	err = c.Change(ctx, c.Dynamic.Resource(clusters.RuleResource()), u, func(there *unstructured.Unstructured) error {
		return confirmDeletions(there, asked)
	}, clusters.DryRun(o.DryRun)...)
	if err != nil {
		return err
	}
	if o.DryRun {
		progress("context %s: %s of rule %s would be confirmed", c.Context, cli.Plural(result.Deletions, "deletion"), o.Rule)
		return out.Result(result)
	}
	progress("context %s: %s of rule %s confirmed", c.Context, cli.Plural(result.Deletions, "deletion"), o.Rule)
	wait := cli.Wait{Timeout: o.Timeout, Progress: progress}
	err = wait.For(ctx, "the deletions are confirmed, but after %s the rule has not gone on:", func(ctx context.Context) ([]string, error) {
		_, rule, err := c.Rule(ctx, o.Rule)
		if err != nil {
			return nil, err
		}
		if now := clusters.ReadinessOf(rule); now.Reason == confirmations.ReasonGuard {
			return []string{"its agent still says: " + clusters.Bound(now.Message)}, nil
		}
		return nil, nil
	})
	if err != nil {
		return err
	}
	progress("the rule goes on")
	return out.Result(result)
}

// confirmDeletions confirms what the person was told of, unless the agent asks for something else by now.
func confirmDeletions(there *unstructured.Unstructured, asked int) error {
	var rule v1alpha1.ResourceSyncRule
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(there.Object, &rule); err != nil {
		return err
	}
	if ready := clusters.ReadinessOf(&rule); confirmations.GuardedDeletions(ready) != asked {
		return fmt.Errorf("its agent says something else by now: %s: %s; nothing is confirmed", ready.Reason, clusters.Bound(ready.Message))
	}
	annotations := there.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[syncrules.AnnotationConfirmDeletions] = strconv.Itoa(asked)
	there.SetAnnotations(annotations)
	return nil
}

// confirmed is the result for a program. Its JSON is stable: fields are only ever added.
type confirmed struct {
	Context   string `json:"context"`
	Rule      string `json:"rule,omitempty"`
	Cluster   string `json:"cluster,omitempty"`
	Deletions int    `json:"deletions,omitempty"`
	DryRun    bool   `json:"dryRun,omitempty"`
}
