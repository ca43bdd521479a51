// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package accept is the commands accept, disable and enable: what of another cluster takes effect in this one. Each edits an
// annotation of the Cluster object here.
package accept

import (
	"context"

	urfave "github.com/urfave/cli/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/cli"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/clusters"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/syncrules/consent"
)

// byDefault takes the annotation away: the chart value trust.accept decides.
const byDefault = "default"

// Command describes the command accept to the flag library.
func Command(g *cli.Globals) *urfave.Command {
	return &urfave.Command{
		Name:      "accept",
		Usage:     "say what of another cluster takes effect in this one",
		ArgsUsage: "CLUSTER all|objects|none|default",
		Description: `all: its rules are in force, and its objects are copied. objects: its rules are listed and not in force. none: its
objects are not copied either. default: what the chart value trust.accept says. Copies that exist stay as they are.

Exit code: 0 done, or so already; 1 there is no such cluster, or it cannot be done.`,
		Flags: flags(),
		Action: func(c *urfave.Context) error {
			if c.Args().Len() != 2 {
				return cli.Usagef("accept needs a cluster, and what to accept of it: all, objects, none or default")
			}
			o := optionsOf(c, g, v1alpha1.AnnotationAccept)
			if what := c.Args().Get(1); what != byDefault {
				if _, err := consent.ParseAccept(what); err != nil {
					return cli.Usagef("accept: %q is not all, objects, none or default", what)
				}
				o.Value = &what
			}
			return g.Run(c, o)
		},
	}
}

// DisableCommand describes the command disable to the flag library.
func DisableCommand(g *cli.Globals) *urfave.Command {
	return switching(g, "disable", "read nothing from another cluster, in this one; copies stay as they are", new(string))
}

// EnableCommand describes the command enable to the flag library.
func EnableCommand(g *cli.Globals) *urfave.Command {
	return switching(g, "enable", "read from another cluster again that was disabled in this one", nil)
}

func switching(g *cli.Globals, name, usage string, value *string) *urfave.Command {
	return &urfave.Command{
		Name: name, Usage: usage, ArgsUsage: "CLUSTER", Flags: flags(),
		Action: func(c *urfave.Context) error {
			if c.Args().Len() != 1 {
				return cli.Usagef("%s needs the name of one cluster", name)
			}
			o := optionsOf(c, g, v1alpha1.AnnotationClusterDisabled)
			o.Value = value
			return g.Run(c, o)
		},
	}
}

func flags() []urfave.Flag {
	return []urfave.Flag{&urfave.BoolFlag{Name: "dry-run", Usage: "say what would be changed, and change nothing"}}
}

func optionsOf(c *urfave.Context, g *cli.Globals, annotation string) *Options {
	return &Options{Access: clusters.AccessOf(g), Cluster: c.Args().First(), Annotation: annotation, DryRun: c.Bool("dry-run")}
}

// Options are what is said of which cluster.
type Options struct {
	clusters.Access // of the cluster in which it is said

	Cluster    string
	Annotation string
	Value      *string // nil for none
	DryRun     bool
}

// Validate finds nothing to refuse.
func (o *Options) Validate() error { return nil }

// Run edits the Cluster object.
func (o *Options) Run(ctx context.Context, out *cli.Output) error {
	progress := out.Progress()
	c, err := o.Open()
	if err != nil {
		return err
	}
	objects := c.Dynamic.Resource(clusters.ClusterResource())
	u, err := objects.Get(ctx, o.Cluster, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return c.Errorf("no cluster %q; `agentctl clusters` lists what there is", o.Cluster)
	case err != nil:
		return c.Errorf("read cluster %s: %w", o.Cluster, err)
	}
	id, err := c.ClusterID(ctx)
	if err != nil {
		return err
	}
	if clusters.IDOf(u) == id {
		return cli.Usagef("cluster %s is the one of context %s itself", o.Cluster, c.Context)
	}
	err = c.Change(ctx, objects, u, func(there *unstructured.Unstructured) error {
		annotations := there.GetAnnotations()
		if annotations == nil {
			annotations = map[string]string{}
		}
		delete(annotations, o.Annotation)
		if o.Value != nil {
			annotations[o.Annotation] = *o.Value
		}
		there.SetAnnotations(annotations)
		return nil
	}, clusters.DryRun(o.DryRun)...)
	if err != nil {
		return err
	}
	return o.report(c, progress, out)
}

func (o *Options) report(c *clusters.Client, progress cli.Progress, out *cli.Output) error {
	verb, what := "has", "no annotation "+o.Annotation
	if o.DryRun {
		verb = "would have"
	}
	if o.Value != nil {
		what = o.Annotation + "=" + *o.Value
	}
	progress("context %s: cluster %s %s %s", c.Context, o.Cluster, verb, what)
	if out.ForPeople() {
		return nil
	}
	return out.Document(said{c.Context, o.Cluster, o.Annotation, o.Value, o.DryRun})
}

// said is the result for a program. Its JSON is stable: fields are only ever added.
type said struct {
	Context    string  `json:"context"`
	Cluster    string  `json:"cluster"`
	Annotation string  `json:"annotation"`
	Value      *string `json:"value"` // null for none
	DryRun     bool    `json:"dryRun,omitempty"`
}
