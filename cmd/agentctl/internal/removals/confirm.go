// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package removals

import (
	"context"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/cli"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/clusters"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/kube/api/v1alpha1/unconfirmed"
)

// maxConfirmations is how many the annotation lists, the newest last: what an older one confirmed stays. An agent's condition lists
// fewer at a time.
const maxConfirmations = 500

// ConfirmOptions are which removals are confirmed, and where.
type ConfirmOptions struct {
	clusters.Access // of the cluster that confirms them, unless there are Contexts

	Names    []string // names or clusterIDs of those that are removed
	By       string   // name or clusterID of who ordered them
	All      bool
	Contexts []string
	DryRun   bool
	Timeout  time.Duration
}

// Validate checks what can be checked without a cluster.
func (o *ConfirmOptions) Validate() error {
	switch chosen := len(o.Names) > 0; {
	case !chosen && o.By == "" && !o.All:
		return cli.Usagef("removals confirm needs the names of clusters, as `agentctl removals list` shows them, --by or --all")
	case o.All && (chosen || o.By != ""):
		return cli.Usagef("give names, --by or --all, not --all and others")
	case o.Context != "" && len(o.Contexts) > 0:
		return cli.Usagef("--context and --contexts do not go together: name all contexts in --contexts")
	case slices.Contains(o.Contexts, ""):
		return cli.Usagef("--contexts has an empty part: %q", strings.Join(o.Contexts, ","))
	}
	return cli.CheckTimeout(o.Timeout)
}

// means says whether a removal is one of those that are confirmed.
func (o *ConfirmOptions) means(r removal) bool {
	named := len(o.Names) == 0 && r.State != unconfirmed.Disputed && r.State != unconfirmed.ByEdge || slices.ContainsFunc(o.Names, r.is)
	return named && (o.By == "" || o.By == r.By || o.By == r.ByClusterID)
}

// is says whether a person names a removal so: by its key, too, if its author is no member, since anybody made it up.
func (r removal) is(name string) bool {
	return name == r.Name+"/"+r.Key || name == r.ClusterID+"/"+r.Key || r.State != unconfirmed.Disputed && (name == r.Name || name == r.ClusterID)
}

// place is one cluster that confirms removals.
type place struct {
	at       *clusters.Client
	own      *unstructured.Unstructured
	removals []removal
}

// confirmed is the result for a program. Its JSON is stable: fields are only ever added.
type confirmed struct {
	Contexts []confirmedIn `json:"contexts"`
	DryRun   bool          `json:"dryRun,omitempty"`
	Seconds  float64       `json:"seconds"`
}

type confirmedIn struct {
	Context  string    `json:"context"`
	Removals []removal `json:"removals"`
}

// Run confirms the removals, and waits until the agents have carried them out.
func (o *ConfirmOptions) Run(ctx context.Context, out *cli.Output) error {
	start, progress := time.Now(), out.Progress()
	places, err := o.find(ctx)
	if err != nil {
		return err
	}
	word, result := "confirmed", confirmed{DryRun: o.DryRun}
	if o.DryRun {
		word = "would be confirmed"
	}
	for _, p := range places {
		if !o.DryRun {
			if err := p.confirm(ctx); err != nil {
				return err
			}
		}
		for _, r := range p.removals {
			progress("context %s: the removal of cluster %s (key %s) by %s, %s, %s", p.at.Context, r.Name, r.Key, r.By, r.State, word)
		}
		result.Contexts = append(result.Contexts, confirmedIn{p.at.Context, p.removals})
	}
	if !o.DryRun {
		wait := cli.Wait{Timeout: o.Timeout, Progress: progress}
		err = wait.For(ctx, "the removals are confirmed, but after %s not every agent has carried them out:", func(ctx context.Context) (missing []string, err error) {
			return o.missing(ctx, places)
		})
		if err != nil {
			return err
		}
		progress("done: agentctl removals list shows what is left")
	}
	result.Seconds = time.Since(start).Round(time.Millisecond).Seconds()
	return out.Result(result)
}

// find finds the removals in each context. It is an error if there are none in one.
func (o *ConfirmOptions) find(ctx context.Context) (places []place, err error) {
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
		var all []removal
		if p.own, all, err = read(ctx, p.at); err != nil {
			return nil, err
		}
		for _, name := range o.Names {
			if !slices.ContainsFunc(all, func(r removal) bool { return r.is(name) }) {
				return nil, cli.Usagef("no removal of a cluster %q waits to be confirmed in context %s", name, p.at.Context)
			}
		}
		p.removals = slices.DeleteFunc(all, func(r removal) bool { return !o.means(r) })
		if len(p.removals) == 0 {
			return nil, cli.Usagef("no such removal waits to be confirmed in context %s", p.at.Context)
		}
		places = append(places, p)
	}
	return places, nil
}

// confirm adds the removals to the annotation that asks the agent to carry them out.
func (p place) confirm(ctx context.Context) error {
	all := v1alpha1.Approvals(p.own.GetAnnotations()[v1alpha1.AnnotationConfirmRemovals])
	for _, r := range p.removals {
		add := v1alpha1.Approval(r.ClusterID, r.Key)
		all = append(slices.DeleteFunc(all, func(a string) bool { return a == add }), add)
	}
	return p.at.Annotate(ctx, p.own, map[string]string{v1alpha1.AnnotationConfirmRemovals: v1alpha1.JoinApprovals(all[max(0, len(all)-maxConfirmations):])})
}

// missing lists the clusters whose agents still show one of the removals.
func (o *ConfirmOptions) missing(ctx context.Context, places []place) (missing []string, err error) {
	for _, p := range places {
		_, left, err := read(ctx, p.at)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(left, func(r removal) bool {
			return slices.ContainsFunc(p.removals, func(c removal) bool { return c.ClusterID == r.ClusterID && c.Key == r.Key })
		}) {
			missing = append(missing, "the agent of cluster "+p.own.GetName()+" has not carried them out yet: is it running?")
		}
	}
	return missing, nil
}
