// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package leave

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	urfave "github.com/urfave/cli/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/cli"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/clusters"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/fleet"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// RemoveCommand describes the command remove to the flag library.
func RemoveCommand(g *cli.Globals) *urfave.Command {
	return &urfave.Command{
		Name:      "remove",
		Usage:     "remove another cluster from the group, for good",
		ArgsUsage: "NAME",
		Description: `Removes a cluster from the group, for all its members: its key is refused from then on, whoever vouches for
it; connections and credentials end, on both sides; its Cluster object goes; copies of its objects stay, as
orphans, and rules that it published stay, and are paused. Members that are not reachable hear of it when they
return, and so does the cluster itself. It is admitted again only under a new key: agentctl join --replace-key.

A cluster may have admitted others: agentctl members --tree shows that. Where some would not be in the group without it, say
what becomes of them: --with-admitted removes them, too, as after the theft of a key; --keep-admitted keeps them, and the
cluster of the context answers for them.

The agent of the cluster that the context leads to orders it, and needs no contact with the one that is
removed. The command returns when every member has confirmed it, or after --timeout with those that have not.

Exit code: 0 confirmed by all; 3 ordered, and some member has not confirmed it in time; 2 no such cluster, or not said
what becomes of those that it admitted; 1 it cannot be done.`,
		Flags: []urfave.Flag{
			&urfave.DurationFlag{Name: "timeout", Value: time.Minute, Usage: "how long to wait until every member has confirmed it"},
			&urfave.BoolFlag{Name: "dry-run", Usage: "say what would become orphaned, and change nothing"},
			&urfave.BoolFlag{Name: "with-admitted", Usage: "remove those that it admitted, too"},
			&urfave.BoolFlag{Name: "keep-admitted", Usage: "keep those that it admitted"},
		},
		Action: func(c *urfave.Context) error {
			if c.Args().Len() != 1 {
				return cli.Usagef("remove needs the name of one cluster, as `agentctl clusters` lists it")
			}
			return g.Run(c, &RemoveOptions{
				Access: clusters.AccessOf(g), Name: c.Args().First(), DryRun: c.Bool("dry-run"), Timeout: c.Duration("timeout"),
				WithAdmitted: c.Bool("with-admitted"), KeepAdmitted: c.Bool("keep-admitted"),
			})
		},
	}
}

// RemoveOptions are which cluster is removed.
type RemoveOptions struct {
	clusters.Access // of the cluster whose agent orders it

	Name    string // of the cluster that is removed
	DryRun  bool
	Timeout time.Duration // how long to wait until every member has confirmed it
	// What becomes of those that would not be in the group without it: to be said where there are some.
	WithAdmitted, KeepAdmitted bool
}

// Validate checks what can be checked without a cluster.
func (o *RemoveOptions) Validate() error {
	if o.WithAdmitted && o.KeepAdmitted {
		return cli.Usagef("--with-admitted and --keep-admitted do not go together")
	}
	if o.Name == "" {
		return cli.Usagef("remove needs the name of one cluster, as `agentctl clusters` lists it")
	}
	return cli.CheckTimeout(o.Timeout)
}

// Run orders the removal, and waits until every member has confirmed it.
func (o *RemoveOptions) Run(ctx context.Context, out *cli.Output) error {
	c, err := o.Open()
	if err != nil {
		return err
	}
	own, target, err := findTarget(ctx, c, o.Name)
	if err != nil {
		return err
	}
	if clusters.IsEdge(own) { // it may be none for others: who has the key of a member tells it what it is
		out.Warn("members say that cluster " + own.GetName() + " is an edge of its group, which removes nobody; those that take it for one hold this removal: then order it in a full member, as agentctl members -o wide lists them there")
	}
	if o.DryRun {
		return showPreview(ctx, c, own, target, out)
	}
	admitted, err := o.checkAdmitted(ctx, c, own, target)
	if err != nil {
		return err
	}
	start := time.Now()
	progress := out.Progress()
	progress("removing cluster %s (%s), ordered by cluster %s", o.Name, clusters.IDOf(target), own.GetName())
	w := removing{c: c, own: own.GetName(), target: target}
	if o.WithAdmitted { // the agent finds those that it has not told of yet, too
		progress("and those that it admitted: %s", cmp.Or(some(namesOf(admitted)), "none"))
		w.branch, w.looks = admitted, map[types.UID]int{}
	}
	err = c.Annotate(ctx, target, v1alpha1.RemovalRequest(clusters.MeshKey(target), o.WithAdmitted))
	if err != nil && (!o.WithAdmitted || !apierrors.IsNotFound(err)) { // another member was faster, and may have left the branch
		return err
	}
	wait := cli.Wait{Timeout: o.Timeout, Progress: progress}
	if err := wait.For(ctx, "cluster "+o.Name+" is removed, but after %s not everybody has confirmed it:", w.look); err != nil {
		return err
	}
	progress("removed: every member refuses cluster %s", o.Name)
	return out.Result(ended{
		Removed: o.Name, Admitted: namesOf(w.branch), ClusterID: clusters.IDOf(target), By: own.GetName(),
		Seconds: time.Since(start).Round(time.Millisecond).Seconds(),
	})
}

// checkAdmitted lists who would not be in the group without the cluster. It is an error if nothing is said of them.
func (o *RemoveOptions) checkAdmitted(ctx context.Context, c *clusters.Client, own, target *unstructured.Unstructured) (branch []*v1alpha1.Cluster, err error) {
	all, err := c.Members(ctx)
	if err != nil {
		return nil, err
	}
	tree := fleet.AdmittedIn(all, clusters.IDOf(own))
	in := tree.Branch(clusters.IDOf(target))
	for _, member := range all {
		if slices.Contains(in, string(member.Spec.ClusterID)) {
			branch = append(branch, member)
		}
	}
	switch {
	case o.WithAdmitted && !tree.Known:
		return nil, c.Errorf("the agent of cluster %s does not tell who admitted whom: upgrade it, or remove the clusters one by one", own.GetName())
	case len(branch) > 0 && !o.WithAdmitted && !o.KeepAdmitted:
		return nil, cli.Usagef("cluster %s admitted %s: say --with-admitted to remove those, too, or --keep-admitted", o.Name, some(namesOf(branch)))
	}
	return branch, nil
}

func namesOf(all []*v1alpha1.Cluster) (names []string) {
	for _, c := range all {
		names = append(names, c.Name)
	}
	slices.Sort(names)
	return names
}

// some names a few of many.
func some(names []string) string {
	if more := len(names) - someNames; more > 0 {
		return strings.Join(names[:someNames], ", ") + fmt.Sprintf(" and %d more", more)
	}
	return strings.Join(names, ", ")
}

// findTarget finds the cluster to be removed, and refuses what cannot be.
func findTarget(ctx context.Context, c *clusters.Client, name string) (own, target *unstructured.Unstructured, err error) {
	if own, err = c.Local(ctx); err != nil {
		return nil, nil, err
	}
	if why := clusters.RemovedFrom(own); why != "" {
		return nil, nil, c.Errorf("%s", why)
	}
	all, err := c.ClusterObjects(ctx)
	if err != nil {
		return nil, nil, err
	}
	var names []string
	for i := range all {
		if all[i].GetName() == name {
			target = &all[i]
		}
		if clusters.IDOf(&all[i]) != clusters.IDOf(own) {
			names = append(names, all[i].GetName())
		}
	}
	switch {
	case target == nil && len(names) == 0:
		return nil, nil, cli.Usagef("no cluster %q in context %s: cluster %s is alone there", name, c.Context, own.GetName())
	case target == nil:
		return nil, nil, cli.Usagef("no cluster %q in context %s; it lists: %s", name, c.Context, strings.Join(names, ", "))
	case clusters.IDOf(target) == clusters.IDOf(own):
		return nil, nil, cli.Usagef("%s is the cluster of context %s itself; agentctl leave ends its membership", name, c.Context)
	case clusters.MeshKey(target) == "":
		return nil, nil, c.Errorf("cluster %s has no spec.mesh.publicKey: it is no member, and its object can just be deleted: kubectl --context %s delete cluster %s", name, c.Context, name)
	}
	return own, target, nil
}

// patience is how often a member of the branch is seen after the head is gone before its own removal is ordered, about a second.
const patience = 5

// removing waits for the end of a cluster, and of those that it admitted.
type removing struct {
	c      *clusters.Client
	own    string // the name of the cluster whose agent orders it
	target *unstructured.Unstructured
	branch []*v1alpha1.Cluster
	looks  map[types.UID]int // how often each of the branch was there after the target had gone
}

// look says what is missing until the objects of all are gone, and the agent says that every member has confirmed it. An agent that
// found the target removed by another member does not know what its branch was: so each that is left of it is removed by itself.
func (w *removing) look(ctx context.Context) (missing []string, err error) {
	all, err := w.c.ClusterObjects(ctx)
	if err != nil {
		return nil, err
	}
	there := map[types.UID]*unstructured.Unstructured{}
	var own *unstructured.Unstructured
	for i := range all {
		if there[all[i].GetUID()] = &all[i]; all[i].GetName() == w.own {
			own = &all[i]
		}
	}
	if there[w.target.GetUID()] != nil {
		return []string{"the agent of cluster " + w.own + " has not removed it yet: is it running?"}, nil
	}
	for _, member := range w.branch {
		left := there[member.UID]
		if left == nil {
			continue
		}
		if w.looks[member.UID]++; w.looks[member.UID] == patience {
			if err := w.c.Annotate(ctx, left, v1alpha1.RemovalRequest(clusters.MeshKey(left), true)); err != nil && !apierrors.IsNotFound(err) {
				return nil, err
			}
		}
		missing = append(missing, "cluster "+member.Name+", which it admitted, is not removed yet")
	}
	if own == nil {
		return nil, w.c.Errorf("cluster %s has no Cluster object", w.own)
	}
	cluster, err := clusters.DecodeCluster(own)
	if err != nil {
		return nil, err
	}
	return append(missing, w.unconfirmed(cluster)...), nil
}

// unconfirmed says who has not confirmed it.
func (w *removing) unconfirmed(own *v1alpha1.Cluster) (missing []string) {
	cond := clusters.Condition(own, v1alpha1.ConditionRemovalsConfirmed)
	if cond == nil {
		return []string{"the agent of cluster " + w.own + " has not told who has confirmed it"}
	}
	waiting, found := v1alpha1.RemovalWaits(cond.Message, clusters.IDOf(w.target))
	if !found && cond.Status != metav1.ConditionTrue {
		return []string{"waiting for other removals"}
	}
	for _, member := range waiting {
		missing = append(missing, "not confirmed by "+member)
	}
	return missing
}

// ended is the result for a program. Its JSON is stable: fields are only ever added.
type ended struct {
	Removed   string   `json:"removed,omitempty"`
	Admitted  []string `json:"admitted,omitempty"` // that were removed with it
	Left      string   `json:"left,omitempty"`
	ClusterID string   `json:"clusterID"`
	By        string   `json:"by,omitempty"`
	Note      string   `json:"note,omitempty"`
	Seconds   float64  `json:"seconds"`
}
