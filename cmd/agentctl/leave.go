// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"time"

	urfave "github.com/urfave/cli/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

func leaveCommand(g *globals) *urfave.Command {
	return &urfave.Command{
		Name:  "leave",
		Usage: "take the cluster of the context out of its group",
		Description: `Ends the membership of the cluster that the context leads to: its Cluster object goes in all other
clusters, and theirs in this one; credentials end on both sides; copies stay where they are, as orphans, and so
do rules of others, which are paused. The agent gives up its key and goes on alone under a new one: agentctl
join makes the cluster a member again, of this group or another. A cluster that was removed gets a new key, too.

Exit code: 0 done; 3 asked for, and the agent did not finish within --timeout; 1 it cannot be done.`,
		Flags: append(endFlags("the cluster has left"), &urfave.BoolFlag{Name: "dry-run", Usage: "say what would become orphaned, and change nothing"}),
		Action: func(c *urfave.Context) error {
			if err := noArguments(c); err != nil {
				return err
			}
			o, err := endOptionsOf(c, g)
			if err != nil {
				return err
			}
			return o.leave(c.Context)
		},
	}
}

func (o endOptions) leave(ctx context.Context) error {
	own, err := o.side.local(ctx)
	if err != nil {
		return err
	}
	if o.dryRun {
		return o.foretell(ctx, own, nil)
	}
	start := time.Now()
	progress := newProgress(o.stdout, o.stderr, o.output, start)
	all, err := o.side.clusters(ctx)
	if err != nil {
		return err
	}
	if len(all) == 1 && removedFrom(own) == "" {
		progress("cluster %s is in no group: there is nothing to leave", own.GetName())
		return o.printEnded(ended{ClusterID: clusterIDOf(own), Note: "it was in no group"})
	}
	note, err := o.giveUp(ctx, own, progress)
	if err != nil {
		return err
	}
	progress("cluster %s: %s", own.GetName(), note)
	return o.printEnded(ended{Left: own.GetName(), ClusterID: clusterIDOf(own), Note: note, Seconds: time.Since(start).Round(time.Millisecond).Seconds()})
}

// giveUp has the agent give up the cluster's key, and returns what it says when it is alone under another.
func (o endOptions) giveUp(ctx context.Context, own *unstructured.Unstructured, progress func(string, ...any)) (note string, err error) {
	key := meshKey(own)
	if key == "" {
		return "", o.side.errorf("cluster %s has no spec.mesh.publicKey; the agent fills it in when it runs", own.GetName())
	}
	progress("cluster %s (context %s) gives up its key", own.GetName(), o.side.Context)
	if err := o.side.ask(ctx, own.GetName(), own.GetUID(), v1alpha1.AnnotationLeave, key); err != nil {
		return "", err
	}
	late := "cluster " + own.GetName() + " was asked to leave, but after %s has not:"
	err = o.await(ctx, late, progress, func(ctx context.Context) ([]string, error) {
		u, err := o.side.client.Resource(clusterResource()).Get(ctx, own.GetName(), metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		c, err := typed(u)
		if err != nil {
			return nil, err
		}
		cond := condition(c, v1alpha1.ConditionClustersSynced)
		switch {
		case meshKey(u) == key && c.Status.Message != "":
			return []string{oneLine(c.Status.Message)}, nil
		case meshKey(u) == key:
			return []string{"its agent has not given up the key yet: is it running?"}, nil
		case cond == nil || cond.ObservedGeneration < c.Generation:
			return []string{"its agent starts again"}, nil
		}
		note = "it has a new key"
		if cond.Status == metav1.ConditionTrue && cond.Message != "" {
			note = oneLine(cond.Message)
		}
		return nil, nil
	})
	return note, err
}

// unused refuses to give up a key under which the cluster is a member of a group.
func (s *side) unused(ctx context.Context) error {
	own, err := s.local(ctx)
	if err != nil {
		return err
	}
	c, err := typed(own)
	if err != nil {
		return err
	}
	all, err := s.clusters(ctx)
	if err != nil {
		return err
	}
	cond := condition(c, v1alpha1.ConditionReady)
	if others := len(all) - 1; others > 0 && cond != nil && cond.Status == metav1.ConditionTrue {
		return s.errorf("the key of cluster %s is in use: --replace-key ends its membership at all of its peers (%d), and what was copied to and from them becomes orphans; give --yes as well to do that", own.GetName(), others)
	}
	return nil
}

// replaceKey gives o's cluster a new key before a swap with the cluster at: what is known there of the old one goes.
func (o endOptions) replaceKey(ctx context.Context, at *side, progress func(string, ...any)) error {
	own, err := o.side.local(ctx)
	if err != nil {
		return err
	}
	old := meshKey(own)
	if _, err := o.giveUp(ctx, own, progress); err != nil {
		return err
	}
	there, err := at.clusters(ctx)
	if err != nil {
		return err
	}
	for i := range there {
		if clusterIDOf(&there[i]) != clusterIDOf(own) || meshKey(&there[i]) != old {
			continue
		}
		if removedFrom(&there[i]) != "" { // a leftover, put there by hand
			return at.errorf("Cluster %s there has the old key: kubectl --context %s delete cluster %s", there[i].GetName(), at.Context, there[i].GetName())
		}
		peer := o
		peer.side = at
		holder, err := at.local(ctx)
		if err != nil {
			return err
		}
		err = at.ask(ctx, there[i].GetName(), there[i].GetUID(), v1alpha1.AnnotationRemove, old)
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
		if err := peer.awaitGone(ctx, holder.GetName(), &there[i], progress); err != nil {
			return err
		}
	}
	return nil
}

// awaitGone waits until the object of a cluster is gone.
func (o endOptions) awaitGone(ctx context.Context, own string, target *unstructured.Unstructured, progress func(string, ...any)) error {
	return o.await(ctx, "the old key of cluster "+target.GetName()+" is removed, but after %s it is still listed:", progress, func(ctx context.Context) ([]string, error) {
		there, err := o.side.client.Resource(clusterResource()).Get(ctx, target.GetName(), metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err), err == nil && there.GetUID() != target.GetUID():
			return nil, nil
		case err != nil:
			return nil, err
		}
		return []string{"the agent of cluster " + own + " has not removed the old key yet: is it running?"}, nil
	})
}
