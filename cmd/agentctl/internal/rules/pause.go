// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"context"
	"time"

	urfave "github.com/urfave/cli/v2"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/cli"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/clusters"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/syncrules"
)

func pauseCommand(g *cli.Globals) *urfave.Command {
	return pausing(g, false, "leave all copies of a rule as they are, in every cluster")
}

func resumeCommand(g *cli.Globals) *urfave.Command {
	return pausing(g, true, "let a rule go on that was paused")
}

func pausing(g *cli.Globals, resume bool, usage string) *urfave.Command {
	o := &PauseOptions{Resume: resume}
	return &urfave.Command{
		Name:      o.verb(),
		Usage:     usage,
		ArgsUsage: "NAME",
		Description: `Sets spec.paused of a rule, in the cluster that the rule is from; its agent publishes that to all others. It waits until the
agent of this cluster has taken it up.

Exit code: 0 done, or so already; 3 written, and the agent has not taken it up in time; 1 the rule is of another
cluster, or it cannot be done.`,
		Flags: []urfave.Flag{
			&urfave.BoolFlag{Name: "dry-run", Usage: "say what would be changed, and change nothing"},
			&urfave.DurationFlag{Name: "timeout", Value: time.Minute, Usage: "how long to wait until the agent has taken it up"},
		},
		Action: func(c *urfave.Context) error {
			if c.Args().Len() != 1 {
				return cli.Usagef("rules %s needs the name of one rule", o.verb())
			}
			return g.Run(c, &PauseOptions{
				Access: clusters.AccessOf(g), Rule: c.Args().First(), Resume: resume, DryRun: c.Bool("dry-run"), Timeout: c.Duration("timeout"),
			})
		},
	}
}

// PauseOptions are which rule is paused, or goes on.
type PauseOptions struct {
	clusters.Access // of the cluster that the rule is from

	Rule    string
	Resume  bool
	DryRun  bool
	Timeout time.Duration
}

func (o *PauseOptions) verb() string {
	if o.Resume {
		return "resume"
	}
	return "pause"
}

// Validate checks what can be checked without a cluster.
func (o *PauseOptions) Validate() error { return cli.CheckTimeout(o.Timeout) }

// Run changes the rule, and waits until the agent has taken that up.
func (o *PauseOptions) Run(ctx context.Context, out *cli.Output) error {
	progress := out.Progress()
	c, err := o.Open()
	if err != nil {
		return err
	}
	u, rule, err := c.Rule(ctx, o.Rule)
	if err != nil {
		return err
	}
	if err := o.refuse(ctx, c, rule); err != nil {
		return err
	}
	result := paused{Context: c.Context, Rule: o.Rule, Paused: !o.Resume, Changed: rule.Spec.Paused == o.Resume, DryRun: o.DryRun}
	if err := o.write(ctx, c, u); err != nil {
		return err
	}
	switch {
	case !result.Changed:
		progress("context %s: rule %s is not changed: %s already", c.Context, o.Rule, result.state())
		return out.Result(result)
	case o.DryRun:
		progress("context %s: rule %s would be changed: %s then", c.Context, o.Rule, result.state())
		return out.Result(result)
	}
	wait := cli.Wait{Timeout: o.Timeout, Progress: progress}
	err = wait.For(ctx, "rule "+o.Rule+" is changed, but after %s the agent has not taken that up:", func(ctx context.Context) ([]string, error) {
		_, rule, err := c.Rule(ctx, o.Rule)
		if err != nil {
			return nil, err
		}
		if now := clusters.ReadinessOf(rule); now.Reason == clusters.NotLookedAt || (now.Reason == "Paused") == o.Resume {
			return []string{"its agent says " + now.Reason + ": " + clusters.Bound(now.Message)}, nil
		}
		return nil, nil
	})
	if err != nil {
		return err
	}
	progress("context %s: rule %s: %s", c.Context, o.Rule, result.state())
	return out.Result(result)
}

func (o *PauseOptions) write(ctx context.Context, c *clusters.Client, u *unstructured.Unstructured) error {
	return c.Change(ctx, c.Dynamic.Resource(clusters.RuleResource()), u, func(there *unstructured.Unstructured) error {
		if o.Resume {
			unstructured.RemoveNestedField(there.Object, "spec", "paused")
			return nil
		}
		return unstructured.SetNestedField(there.Object, true, "spec", "paused")
	}, clusters.DryRun(o.DryRun)...)
}

// refuse says why a rule cannot be changed here: it is a copy, which its agent would restore.
func (o *PauseOptions) refuse(ctx context.Context, c *clusters.Client, rule *v1alpha1.ResourceSyncRule) error {
	owner := syncrules.Owner(rule)
	if owner == "" {
		return nil
	}
	if _, orphaned := rule.Annotations[v1alpha1.AnnotationOrphaned]; orphaned {
		return c.Errorf("rule %s is an orphan, and paused until somebody takes it over: agentctl orphans adopt rsr/%s", o.Rule, o.Rule)
	}
	name := owner
	members, err := c.Members(ctx)
	if err != nil {
		return err
	}
	for _, m := range members {
		if string(m.Spec.ClusterID) == owner {
			name = m.Name
		}
	}
	return c.Errorf("rule %s is of cluster %s: run agentctl rules %s %s in a context of that cluster", o.Rule, name, o.verb(), o.Rule)
}

// paused is the result for a program. Its JSON is stable: fields are only ever added.
type paused struct {
	Context string `json:"context"`
	Rule    string `json:"rule"`
	Paused  bool   `json:"paused"`
	Changed bool   `json:"changed"`
	DryRun  bool   `json:"dryRun,omitempty"`
}

func (p paused) state() string {
	if p.Paused {
		return "it is paused"
	}
	return "it goes on"
}
