// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package join

import (
	"context"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/cli"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/clusters"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// replaceKey gives the cluster a a new key before a swap with b: what b knows of the old one goes.
func (o *Options) replaceKey(ctx context.Context, a, b *clusters.Client, progress cli.Progress) error {
	own, err := a.Local(ctx)
	if err != nil {
		return err
	}
	if err := o.keepRole(ctx, own, b); err != nil {
		return err
	}
	if !o.Yes {
		if err := refuseUsedKey(ctx, a, own); err != nil {
			return err
		}
	}
	old, wait, patience := clusters.MeshKey(own), cli.Wait{Timeout: o.Timeout, Progress: progress}, leaveTime
	leaves := signsLeave(own)
	if leaves {
		patience = max(leaveTime, o.Timeout)
	}
	if _, err := a.GiveUpKey(ctx, own, wait); err != nil {
		return err
	}
	progress("waiting up to %s until context %s has heard of it", patience, b.Context)
	holding, err := awaitLeave(ctx, b, clusters.IDOf(own), old, patience)
	if err != nil {
		return err
	}
	for i := range holding {
		there := &holding[i]
		if clusters.RemovedFrom(there) != "" { // a leftover, put there by hand
			return b.Errorf("Cluster %s there has the old key: kubectl --context %s delete cluster %s", there.GetName(), b.Context, there.GetName())
		}
		if leaves {
			return o.notHeard(b, there, patience)
		}
		if err := removeOldKey(ctx, b, there, old, wait); err != nil {
			return err
		}
	}
	return nil
}

// signsLeave says whether the agent of a cluster can sign that it leaves: it runs and is a member. One that has lost its key says
// that it has a problem.
func signsLeave(own *unstructured.Unstructured) bool {
	cluster, err := clusters.DecodeCluster(own)
	if err != nil {
		return false
	}
	cond := clusters.Condition(cluster, v1alpha1.ConditionReady)
	return cond != nil && cond.Status == metav1.ConditionTrue
}

// notHeard is the error where a cluster has left, and b does not know it yet. The repetition says the role of the newcomer again.
func (o *Options) notHeard(b *clusters.Client, there *unstructured.Unstructured, waited time.Duration) error {
	again := "repeat without --replace-key"
	if o.Role != "" {
		again += ", with the two contexts exchanged: --role is about the cluster of --peer-context then"
	}
	return &cli.TimeoutError{
		Text: fmt.Sprintf("cluster %s has left under its old key and has a new one, but after %s context %s still lists the old key:", there.GetName(), waited, b.Context),
		Missing: []string{fmt.Sprintf("its agent has not heard of it: is it running? Once the old key is gone there, %s. "+
			"Only if it cannot hear of it, since no member is told: agentctl remove %s --context %s, and each other member must approve the new key", again, there.GetName(), b.Context)},
	}
}

// leaveTime is how long the members that a cluster told of its leave have to act on it, at least.
const leaveTime = 3 * time.Second

// awaitLeave returns the objects in b of a cluster under its old key, once they have had the time to go by themselves: where
// the old key is still there, its agent has told the members that it leaves, and under which key it comes back. A removal
// by b would be stronger than that, and every member would have to admit the cluster.
func awaitLeave(ctx context.Context, b *clusters.Client, id, old string, patience time.Duration) (holding []unstructured.Unstructured, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	tick := time.NewTicker(cli.WaitPeriod)
	defer tick.Stop()
	for {
		known, err := b.ClusterObjects(context.WithoutCancel(ctx))
		if err != nil {
			return nil, err
		}
		holding = slices.DeleteFunc(known, func(u unstructured.Unstructured) bool { return clusters.IDOf(&u) != id || clusters.MeshKey(&u) != old })
		select {
		case <-ctx.Done():
			return holding, nil
		case <-tick.C:
			if len(holding) == 0 {
				return nil, nil
			}
		}
	}
}

// refuseUsedKey refuses to give up a key under which the cluster is a member of a group.
func refuseUsedKey(ctx context.Context, c *clusters.Client, own *unstructured.Unstructured) error {
	cluster, err := clusters.DecodeCluster(own)
	if err != nil {
		return err
	}
	all, err := c.MemberObjects(ctx)
	if err != nil {
		return err
	}
	cond := clusters.Condition(cluster, v1alpha1.ConditionReady)
	if others := len(all) - 1; others > 0 && cond != nil && cond.Status == metav1.ConditionTrue {
		return c.Errorf("the key of cluster %s is in use: --replace-key ends its membership at all of its peers (%d), and what was copied to and from them becomes orphans; give --yes as well to do that", own.GetName(), others)
	}
	return nil
}

// removeOldKey has the agent of b remove a cluster under its old key, and waits until its object is gone.
func removeOldKey(ctx context.Context, b *clusters.Client, there *unstructured.Unstructured, old string, wait cli.Wait) error {
	holder, err := b.Local(ctx)
	if err != nil {
		return err
	}
	if err := b.Annotate(ctx, there, v1alpha1.RemovalRequest(old, false)); err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	late := "the old key of cluster " + there.GetName() + " is removed, but after %s it is still listed:"
	return wait.For(ctx, late, func(ctx context.Context) ([]string, error) {
		now, err := b.Dynamic.Resource(clusters.ClusterResource()).Get(ctx, there.GetName(), metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err), err == nil && now.GetUID() != there.GetUID():
			return nil, nil
		case err != nil:
			return nil, err
		}
		return []string{"the agent of cluster " + holder.GetName() + " has not removed the old key yet: is it running?"}, nil
	})
}
