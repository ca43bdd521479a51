// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package verify is the command verify: it has an object copied through the group, and says how long that takes to each cluster.
//
//	canary   the object and its rule, in the cluster of --context; what an earlier run left
//	site     a cluster that is watched for the copy
//	measure  the steps, and how long each of them took to each site
//	result   what is printed
//
// Only what this command has made is ever changed or deleted: it has the label, a name with a random part, and is deleted by its
// UID. Agents delete the copies.
package verify

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	urfave "github.com/urfave/cli/v2"
	"golang.org/x/sync/errgroup"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/cli"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/clusters"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/fleet"
)

// maxSites is how many clusters are connected to at a time.
const maxSites = 16

// Command describes the command to the flag library.
func Command(g *cli.Globals) *urfave.Command {
	return &urfave.Command{
		Name:  "verify",
		Usage: "have a canary copied to other clusters of the group, and say how long that takes",
		Description: `Creates a rule and then an object in the cluster of --context, both of a new name, in the agents' namespace. The rule
copies this object alone, to the clusters of --peer-context alone. In each of these it waits until the rule is in
force, the copy is there, has changed, and is gone again, and prints how many seconds each of that took. Then all is
deleted, also when the command is interrupted. What a run left that was killed, a later one deletes: each object says
until when it may be there. --clean does so at once, and nothing else.

You need the rights to create and delete rules and to create, patch and delete the object in the cluster of --context,
and to list and watch both in the others; what is missing is said before anything is written. What runs have left is
looked for if you may list rules there, and deleted if you may get the object.
The object is a Secret, which agents may copy by default; it holds nothing but a number.

  agentctl verify --context cluster-1 --peer-context cluster-2,cluster-3

Exit code: 0 all copies came and went in time; 3 some did not; 6 a cluster could not be asked; 1 it cannot be done.`,
		Flags: []urfave.Flag{
			&urfave.StringFlag{Name: "peer-context", Usage: "`CONTEXTS` of the clusters that the canary is copied to, separated by commas"},
			&urfave.StringFlag{Name: "kind", Value: kindSecret, Usage: "`KIND` of the canary: Secret or ConfigMap"},
			&urfave.DurationFlag{Name: "timeout", Value: 30 * time.Second, Usage: "how long each of the four steps may take"},
			&urfave.BoolFlag{Name: "dry-run", Usage: "say what would be done, and change nothing"},
			&urfave.BoolFlag{Name: "clean", Usage: "only delete what runs have left that were killed, whatever they say until when"},
		},
		Action: func(c *urfave.Context) error {
			if err := cli.NoArguments(c); err != nil {
				return err
			}
			o := &Options{
				Access: clusters.AccessOf(g), Namespace: g.Namespace.String(), Kind: c.String("kind"), Timeout: c.Duration("timeout"),
				DryRun: c.Bool("dry-run"), Clean: c.Bool("clean"),
			}
			if c.IsSet("peer-context") {
				o.PeerContexts = strings.Split(c.String("peer-context"), ",")
			}
			// Without this the run would end in the middle when nobody reads what it says. It stays: what comes after prints, too.
			signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
			return g.Run(c, o)
		},
	}
}

// Options are where the canary is made, and where it is to be copied to.
type Options struct {
	clusters.Access // of the cluster where the canary is made

	PeerContexts []string // of the same kubeconfig
	Namespace    string
	Kind         string
	Timeout      time.Duration // of each step
	DryRun       bool
	Clean        bool // only what earlier runs have left
}

// Validate checks what can be checked without a cluster.
func (o *Options) Validate() error {
	switch {
	case o.Clean && len(o.PeerContexts) > 0:
		return cli.Usagef("--clean goes without --peer-context: agents delete the copies")
	case !o.Clean && len(o.PeerContexts) == 0:
		return cli.Usagef("verify needs --peer-context, the contexts of the clusters that the canary is copied to")
	case slices.Contains(o.PeerContexts, ""):
		return cli.Usagef("--peer-context has an empty part: %q", strings.Join(o.PeerContexts, ","))
	case o.Kind != kindSecret && o.Kind != kindConfigMap:
		return cli.Usagef("--kind must be Secret or ConfigMap, and is %q", o.Kind)
	}
	return cli.CheckTimeout(o.Timeout)
}

// Run measures, prints, and returns an error unless everything came and went in time.
func (o *Options) Run(ctx context.Context, out *cli.Output) error {
	own, err := o.Open()
	if err != nil {
		return err
	}
	k, err := newCanary(ctx, own, o)
	if err != nil {
		return err
	}
	r := &result{Source: k.cluster, ClusterID: k.id, Namespace: o.Namespace, Kind: o.Kind, DryRun: o.DryRun, Clusters: []*timing{}, Unknown: []fleet.Unknown{}}
	r.Removed, err = k.sweep(ctx, o.Clean, o.DryRun)
	if o.Clean {
		return errors.Join(r.print(out), err)
	}
	progress := out.Progress()
	if err != nil { // it keeps nobody from measuring
		progress("%s", cli.OneLine(err.Error()))
	}
	r.Name = k.name
	sites, err := o.sites(ctx, k, r)
	if err != nil {
		return err
	}
	switch {
	case o.DryRun:
		err = k.tryRule(ctx, sites)
	case len(sites) > 0:
		err = (&measure{canary: k, sites: sites, timeout: o.Timeout, progress: progress}).run(ctx)
	}
	if err != nil {
		return err
	}
	for _, s := range sites {
		if s.unknown != "" {
			r.Unknown = append(r.Unknown, fleet.Unknown{Cluster: s.Cluster, ClusterID: s.ClusterID, Reason: s.unknown})
		}
	}
	if err := r.print(out); err != nil {
		return err
	}
	return r.answer(o.Timeout)
}

// sites connects to the clusters of the contexts. One that cannot be asked is unknown; one that is no member is a mistake.
func (o *Options) sites(ctx context.Context, k *canary, r *result) ([]*site, error) {
	all, errs := make([]*site, len(o.PeerContexts)), make([]error, len(o.PeerContexts))
	var group errgroup.Group
	group.SetLimit(maxSites)
	for i, name := range o.PeerContexts {
		c, err := o.To(name).Open()
		if err != nil {
			return nil, err // there is no such context
		}
		group.Go(func() error {
			all[i], errs[i] = connect(ctx, c, o)
			return nil
		})
	}
	_ = group.Wait() // no error is returned
	if ctx.Err() != nil {
		return nil, errors.New("interrupted")
	}
	var out []*site
	for i, s := range all {
		name := o.PeerContexts[i]
		if errs[i] != nil {
			r.Unknown = append(r.Unknown, fleet.Unknown{Cluster: "of context " + name, Reason: clusters.Reason(errs[i])})
			continue
		}
		switch member := k.members[s.ClusterID]; {
		case s.ClusterID == k.id:
			return nil, cli.Usagef("--peer-context %s leads to the cluster of --context: the canary is not copied to where it is", name)
		case !member:
			return nil, cli.Usagef("--peer-context names %s, whose cluster (clusterID %s) is no member of the group in context %s", name, s.ClusterID, k.own.Context)
		case slices.ContainsFunc(out, func(other *site) bool { return other.ClusterID == s.ClusterID }):
			return nil, cli.Usagef("--peer-context %s leads to a cluster that another context leads to", name)
		}
		s.source = k.id
		out, r.Clusters = append(out, s), append(r.Clusters, &s.timing)
	}
	return out, nil
}
