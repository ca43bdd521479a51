// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package join is the command join: it makes two clusters members of one group, by handing each of them the other's
// Cluster object and credential. All that can be checked is checked before the first write.
package join

import (
	"context"
	"encoding/base64"
	"slices"
	"strings"
	"time"

	urfave "github.com/urfave/cli/v2"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/cli"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/clusters"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// Command describes the command to the flag library.
func Command(g *cli.Globals) *urfave.Command {
	return &urfave.Command{
		Name:  "join",
		Usage: "make two clusters members of one group",
		Description: `Hands each of the two clusters the other's Cluster object and the Secret with its read-only
credential, which is all that a person does by hand otherwise, and waits until both say that
they are synced. A newcomer joins any one member of a group; the others hear of it by themselves.
Several newcomers join at the same time with --peer-context b,c,d: all are checked before the first write.
With --role edge the clusters of --peer-context (with --replace-key that of --context) become members that neither
admit nor remove others, and whose rules are in force nowhere else; --role full makes full members of edges.
With --replace-key a cluster that is a member now gives up that membership first, which takes --yes.
With --dry-run nothing is written; -o yaml then prints the objects, credentials included.`,
		Flags: []urfave.Flag{
			&urfave.StringFlag{Name: "peer-context", Usage: "`CONTEXT` that leads to the other cluster; several newcomers are separated by commas"},
			&urfave.StringFlag{Name: "peer-kubeconfig", Usage: "kubeconfig `FILE` of the other cluster, when it is another file"},
			&urfave.BoolFlag{Name: "dry-run", Usage: "say what would be written, and write nothing"},
			&urfave.BoolFlag{Name: "replace-key", Usage: "give the cluster of --context a new key first: its own was removed from the group, or is lost"},
			&urfave.BoolFlag{Name: "yes", Usage: "with --replace-key: also when the key is in use, and its membership ends with it"},
			&urfave.StringFlag{Name: "role", Usage: "`ROLE` of the newcomers: full, which is what they get where nothing is said, or edge"},
			&urfave.DurationFlag{Name: "timeout", Value: time.Minute, Usage: "how long to wait until both clusters are synced"},
		},
		Action: func(c *urfave.Context) error {
			if err := cli.NoArguments(c); err != nil {
				return err
			}
			return g.Run(c, &Options{
				Access: clusters.AccessOf(g), Namespace: g.Namespace.String(), Peers: peersOf(c),
				DryRun: c.Bool("dry-run"), ReplaceKey: c.Bool("replace-key"), Yes: c.Bool("yes"), Role: c.String("role"), Timeout: c.Duration("timeout"),
			})
		},
	}
}

// peersOf are the other clusters; none without a flag that names one.
func peersOf(c *urfave.Context) []clusters.Access {
	if !c.IsSet("peer-context") && !c.IsSet("peer-kubeconfig") {
		return nil
	}
	var out []clusters.Access
	for name := range strings.SplitSeq(c.String("peer-context"), ",") {
		out = append(out, clusters.Access{Kubeconfig: c.String("peer-kubeconfig"), Context: name})
	}
	return out
}

// Options are which clusters join: each of the others with that of Access.
type Options struct {
	clusters.Access

	Peers      []clusters.Access // the others; without a kubeconfig they are in that of the first
	Namespace  string            // where credentials are that a Cluster object names without a namespace
	DryRun     bool
	ReplaceKey bool   // give the first cluster a new key before
	Yes        bool   // also when its key is in use
	Role       string // of the newcomers in the group: full, edge, or "" to say nothing
	Timeout    time.Duration
}

// Validate checks what can be checked without a cluster.
func (o *Options) Validate() error {
	switch {
	case len(o.Peers) == 0:
		return cli.Usagef("join needs --peer-context, the context of the other cluster")
	case len(o.Peers) > 1 && slices.ContainsFunc(o.Peers, func(a clusters.Access) bool { return a.Context == "" }):
		return cli.Usagef("--peer-context has an empty part")
	case len(o.Peers) > 1 && o.ReplaceKey:
		return cli.Usagef("--replace-key goes with one --peer-context: a cluster joins one member under its new key, and the others hear of it")
	case o.Yes && !o.ReplaceKey:
		return cli.Usagef("--yes is of no use without --replace-key")
	case o.ReplaceKey && o.DryRun:
		return cli.Usagef("--replace-key and --dry-run do not go together: what would be swapped has the key that is not made yet")
	}
	if err := checkRole(o.Role); err != nil {
		return err
	}
	return cli.CheckTimeout(o.Timeout)
}

// Run swaps what the clusters need of each other, and waits until both sides of each swap say that they are synced.
func (o *Options) Run(ctx context.Context, out *cli.Output) error {
	start := time.Now()
	progress := out.Progress()
	a, peers, err := o.open()
	if err != nil {
		return err
	}
	if o.ReplaceKey {
		if err := o.replaceKey(ctx, a, peers[0], progress); err != nil {
			return err
		}
	}
	swaps, err := o.prepare(ctx, a, peers)
	if err != nil {
		return err
	}
	for _, s := range swaps {
		for _, t := range s.targets {
			if t.warning != "" {
				out.Warn(t.warning)
			}
		}
		progress("joining cluster %s (context %s) and cluster %s (context %s)", s.sources[0].name(), a.Context, s.sources[1].name(), s.sources[1].from.Context)
	}
	if o.DryRun {
		return printDryRun(out, swaps)
	}
	if err := o.runAll(ctx, swaps, progress); err != nil {
		return err
	}
	own := swaps[0].sources[0]
	if key, err := base64.StdEncoding.DecodeString(clusters.MeshKey(own.cluster)); o.ReplaceKey && err == nil {
		progress("a member that holds a removal of cluster %s shows it as pending until it is admitted there: agentctl approve %s --key %s --contexts MEMBERS",
			own.name(), own.name(), v1alpha1.KeyFingerprint(key))
	}
	return printJoined(out, swaps, time.Since(start))
}

func (o *Options) open() (a *clusters.Client, peers []*clusters.Client, err error) {
	if a, err = o.Open(); err != nil {
		return nil, nil, err
	}
	for _, peer := range o.Peers {
		if peer.As = o.As; peer.Kubeconfig == "" {
			peer.Kubeconfig = o.Kubeconfig
		}
		b, err := peer.Open()
		if err != nil {
			return nil, nil, err
		}
		if a.Context == b.Context && peer.Kubeconfig == o.Kubeconfig {
			return nil, nil, cli.Usagef("--context and --peer-context both name %s; a cluster does not join itself", a.Context)
		}
		peers = append(peers, b)
	}
	return a, peers, nil
}

// prepareSwap reads both clusters and checks everything that can be checked, so that a refusal comes
// before the first write.
func (o *Options) prepareSwap(ctx context.Context, a, b *clusters.Client) ([2]*swapSource, [2]*swapTarget, error) {
	var sources [2]*swapSource
	var targets [2]*swapTarget
	for i, s := range []*clusters.Client{a, b} {
		var err error
		if sources[i], err = awaitSource(ctx, s, o.Namespace, o.Timeout); err != nil {
			return sources, targets, err
		}
		if why := clusters.RemovedFrom(sources[i].cluster); why != "" {
			return sources, targets, s.Errorf("%s", why)
		}
	}
	if sources[0].id() == sources[1].id() {
		return sources, targets, cli.Usagef("contexts %s and %s lead to one cluster (%s); a cluster does not join itself", a.Context, b.Context, sources[0].id())
	}
	for i, to := range []*clusters.Client{a, b} {
		var err error
		// The receiver's own credential shows which namespace its agent reads credentials from.
		if targets[i], err = prepareTarget(ctx, sources[1-i], to, sources[i].secret.GetNamespace()); err != nil {
			return sources, targets, err
		}
		if err := targets[i].admit(o.roleIn(i), sources[i].cluster); err != nil {
			return sources, targets, err
		}
	}
	return sources, targets, o.checkSides(sources, targets)
}
