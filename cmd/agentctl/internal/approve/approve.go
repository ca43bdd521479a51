// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package approve is the command approve: a person admits a cluster that was removed from the group, and is back under
// another key, in each cluster that asks for it.
package approve

import (
	"context"
	"slices"
	"strings"
	"time"

	urfave "github.com/urfave/cli/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/cli"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/clusters"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// maxApprovals is how many approvals the annotation lists, the newest last. What an older one admitted stays.
const maxApprovals = 32

// Command describes the command to the flag library.
func Command(g *cli.Globals) *urfave.Command {
	return &urfave.Command{
		Name:      "approve",
		Usage:     "admit a cluster again that was removed from the group",
		ArgsUsage: "NAME",
		Description: `Admits a cluster that was removed from the group and is back under a new key. In each member but the one that
it swapped with, it waits until a person there approves it: whoever introduces it may be the one who removed
it. The condition ClustersAdmitted of a member's own Cluster object lists who waits there, with the fingerprint
of each key; NAME is what that calls it, or its clusterID. In the cluster itself, the fingerprint is that of
spec.mesh.publicKey:

  kubectl get cluster NAME -o jsonpath={.spec.mesh.publicKey} | base64 -d | sha256sum | cut -c-32

Nothing is written unless it waits in all contexts, under one key.

Exit code: 0 admitted; 3 approved, and an agent has not admitted it in time; 2 it does not wait there, or under
another key; 1 it cannot be done.`,
		Flags: []urfave.Flag{
			&urfave.StringFlag{Name: "contexts", Usage: "`CONTEXTS` of several members that admit it, separated by commas, in place of --context"},
			&urfave.StringFlag{Name: "key", Usage: "`FINGERPRINT` that its key must have"},
			&urfave.BoolFlag{Name: "dry-run", Usage: "say what would be admitted, and change nothing"},
			&urfave.DurationFlag{Name: "timeout", Value: time.Minute, Usage: "how long to wait until it is admitted"},
		},
		Action: func(c *urfave.Context) error {
			if c.Args().Len() != 1 {
				return cli.Usagef("approve needs the name of one cluster, as the condition ClustersAdmitted lists it")
			}
			o := &Options{Access: clusters.AccessOf(g), Name: c.Args().First(), Key: c.String("key"), DryRun: c.Bool("dry-run"), Timeout: c.Duration("timeout")}
			if c.IsSet("contexts") {
				o.Contexts = strings.Split(c.String("contexts"), ",")
			}
			return g.Run(c, o)
		},
	}
}

// Options are which cluster is admitted, and where.
type Options struct {
	clusters.Access // of the cluster that admits it, unless there are Contexts

	Name     string   // or clusterID
	Contexts []string // of the clusters that admit it
	Key      string   // fingerprint; "" for whatever key it has
	DryRun   bool
	Timeout  time.Duration // how long to wait until it is admitted
}

// Validate checks what can be checked without a cluster.
func (o *Options) Validate() error {
	switch {
	case o.Name == "":
		return cli.Usagef("approve needs the name of one cluster, as the condition ClustersAdmitted lists it")
	case o.Context != "" && len(o.Contexts) > 0:
		return cli.Usagef("--context and --contexts do not go together: name all contexts in --contexts")
	case slices.Contains(o.Contexts, ""):
		return cli.Usagef("--contexts has an empty part: %q", strings.Join(o.Contexts, ","))
	case o.Key != "" && (len(o.Key) != len(v1alpha1.KeyFingerprint(nil)) || strings.Trim(o.Key, "0123456789abcdef") != ""):
		return cli.Usagef("--key %q is no fingerprint: that is %d of the characters 0-9 and a-f", o.Key, len(v1alpha1.KeyFingerprint(nil)))
	}
	return cli.CheckTimeout(o.Timeout)
}

// place is one cluster that admits the newcomer.
type place struct {
	at       *clusters.Client
	own      *unstructured.Unstructured
	newcomer v1alpha1.Newcomer
}

// Run finds the newcomer in each cluster, approves it, and waits until the agents have admitted it.
func (o *Options) Run(ctx context.Context, out *cli.Output) error {
	start, progress := time.Now(), out.Progress()
	places, err := o.find(ctx)
	if err != nil {
		return err
	}
	newcomer := places[0].newcomer
	if o.DryRun {
		for _, p := range places {
			progress("context %s: cluster %s would be admitted", p.at.Context, v1alpha1.NewcomerLine(p.newcomer))
		}
		return out.Result(o.result(newcomer, places, start))
	}
	for _, p := range places {
		if err := p.approve(ctx); err != nil {
			return err
		}
		progress("context %s: approved cluster %s", p.at.Context, v1alpha1.NewcomerLine(p.newcomer))
	}
	wait := cli.Wait{Timeout: o.Timeout, Progress: progress}
	err = wait.For(ctx, "cluster "+newcomer.Name+" is approved, but after %s not every agent has admitted it:", func(ctx context.Context) (missing []string, err error) {
		for _, p := range places {
			waiting, err := newcomersIn(ctx, p.at)
			if err != nil {
				return nil, err
			}
			if slices.ContainsFunc(waiting, func(n v1alpha1.Newcomer) bool { return same(n, newcomer) }) {
				missing = append(missing, "the agent of cluster "+p.own.GetName()+" has not admitted it yet: is it running?")
			}
		}
		return missing, nil
	})
	if err != nil {
		return err
	}
	progress("admitted: cluster %s", newcomer.Name)
	return out.Result(o.result(newcomer, places, start))
}

// find finds the newcomer in each context. It is an error if it does not wait in one, or under another key.
func (o *Options) find(ctx context.Context) (places []place, err error) {
	access := []clusters.Access{o.Access}
	if len(o.Contexts) > 0 {
		access = nil
		for _, name := range o.Contexts {
			access = append(access, o.To(name))
		}
	}
	for _, a := range access {
		p := place{}
		if p.at, err = a.Open(); err != nil {
			return nil, err
		}
		if p.own, err = p.at.Local(ctx); err != nil {
			return nil, err
		}
		waiting, err := newcomersIn(ctx, p.at)
		if err != nil {
			return nil, err
		}
		if p.newcomer, err = o.pick(p.at.Context, waiting); err != nil {
			return nil, err
		}
		if len(places) > 0 && !same(places[0].newcomer, p.newcomer) {
			return nil, cli.Usagef("%s is not the same in all contexts: key %s of clusterID %s waits in context %s, and key %s of clusterID %s in context %s; approve the right one with --key",
				o.Name, places[0].newcomer.Fingerprint, places[0].newcomer.ClusterID, places[0].at.Context, p.newcomer.Fingerprint, p.newcomer.ClusterID, p.at.Context)
		}
		places = append(places, p)
	}
	return places, nil
}

// pick returns the newcomer that the user means.
func (o *Options) pick(at string, waiting []v1alpha1.Newcomer) (v1alpha1.Newcomer, error) {
	var found []v1alpha1.Newcomer
	var names, keys []string
	for _, n := range waiting {
		names = append(names, n.Name)
		if n.Name == o.Name || n.ClusterID == o.Name {
			found, keys = append(found, n), append(keys, n.Fingerprint)
		}
	}
	slices.Sort(names)
	matching := slices.DeleteFunc(slices.Clone(found), func(n v1alpha1.Newcomer) bool { return o.Key != "" && n.Fingerprint != o.Key })
	switch {
	case len(waiting) == 0:
		return v1alpha1.Newcomer{}, cli.Usagef("no cluster waits to be admitted in context %s", at)
	case len(found) == 0:
		return v1alpha1.Newcomer{}, cli.Usagef("no cluster %q waits to be admitted in context %s; these do: %s", o.Name, at, strings.Join(slices.Compact(names), ", "))
	case len(matching) == 0:
		return v1alpha1.Newcomer{}, cli.Usagef("cluster %s waits in context %s with the key %s, and not with %s", o.Name, at, strings.Join(keys, " or "), o.Key)
	case len(matching) > 1:
		return v1alpha1.Newcomer{}, cli.Usagef("%d clusters wait as %s in context %s, with the keys %s: approve the right one with --key", len(matching), o.Name, at, strings.Join(keys, ", "))
	}
	return matching[0], nil
}

// Names are those of the clusters that wait to be admitted in a cluster; none where that cannot be told.
func Names(ctx context.Context, access clusters.Access) (names []string) {
	at, err := access.Open()
	if err != nil {
		return nil
	}
	waiting, err := newcomersIn(ctx, at)
	if err != nil {
		return nil
	}
	for _, n := range waiting {
		names = append(names, n.Name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func same(a, b v1alpha1.Newcomer) bool {
	return a.ClusterID == b.ClusterID && a.Fingerprint == b.Fingerprint
}

// newcomersIn lists who waits to be admitted in a cluster.
func newcomersIn(ctx context.Context, at *clusters.Client) ([]v1alpha1.Newcomer, error) {
	own, err := at.Local(ctx)
	if err != nil {
		return nil, err
	}
	cluster, err := clusters.DecodeCluster(own)
	if err != nil {
		return nil, err
	}
	cond := clusters.Condition(cluster, v1alpha1.ConditionClustersAdmitted)
	if cond == nil || cond.Status == metav1.ConditionTrue {
		return nil, nil
	}
	return v1alpha1.ParseNewcomers(cond.Message), nil
}

// approve adds the newcomer to the annotation that asks the agent to admit it.
func (p place) approve(ctx context.Context) error {
	add := v1alpha1.Approval(p.newcomer.ClusterID, p.newcomer.Fingerprint)
	all := v1alpha1.Approvals(p.own.GetAnnotations()[v1alpha1.AnnotationApprove])
	all = append(slices.DeleteFunc(all, func(a string) bool { return a == add }), add)
	return p.at.Annotate(ctx, p.own, map[string]string{v1alpha1.AnnotationApprove: v1alpha1.JoinApprovals(all[max(0, len(all)-maxApprovals):])})
}

// approved is the result for a program. Its JSON is stable: fields are only ever added.
type approved struct {
	Name      string   `json:"name"`
	ClusterID string   `json:"clusterID"`
	Key       string   `json:"key"`
	Contexts  []string `json:"contexts"`
	DryRun    bool     `json:"dryRun,omitempty"`
	Seconds   float64  `json:"seconds"`
}

func (o *Options) result(n v1alpha1.Newcomer, places []place, start time.Time) approved {
	out := approved{Name: n.Name, ClusterID: n.ClusterID, Key: n.Fingerprint, DryRun: o.DryRun, Seconds: time.Since(start).Round(time.Millisecond).Seconds()}
	for _, p := range places {
		out.Contexts = append(out.Contexts, p.at.Context)
	}
	return out
}
