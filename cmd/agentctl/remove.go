// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	urfave "github.com/urfave/cli/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

func removeCommand(g *globals) *urfave.Command {
	return &urfave.Command{
		Name:      "remove",
		Usage:     "remove another cluster from the group, for good",
		ArgsUsage: "NAME",
		Description: `Removes a cluster from the group, for all its members: its key is refused from then on, whoever vouches for
it; connections and credentials end, on both sides; its Cluster object goes; copies of its objects stay, as
orphans, and rules that it published stay, and are paused. Members that are not reachable hear of it when they
return, and so does the cluster itself. It is admitted again only under a new key: agentctl join --replace-key.

The agent of the cluster that the context leads to orders it, and needs no contact with the one that is
removed. The command returns when every member has confirmed it, or after --timeout with those that have not.

Exit code: 0 confirmed by all; 3 ordered, and some member has not confirmed it in time; 2 no such cluster; 1 it
cannot be done.`,
		Flags: append(endFlags("every member has confirmed it"), &urfave.BoolFlag{Name: "dry-run", Usage: "say what would become orphaned, and change nothing"}),
		Action: func(c *urfave.Context) error {
			if c.Args().Len() != 1 {
				return usagef("remove needs the name of one cluster, as `agentctl clusters` lists it")
			}
			o, err := endOptionsOf(c, g)
			if err != nil {
				return err
			}
			return o.remove(c.Context, c.Args().First())
		},
	}
}

// endOptions are those of remove and leave.
type endOptions struct {
	side           *side
	output         string
	dryRun         bool
	timeout        time.Duration
	stdout, stderr io.Writer
}

func endFlags(until string) []urfave.Flag {
	return []urfave.Flag{&urfave.DurationFlag{Name: "timeout", Value: time.Minute, Usage: "how long to wait until " + until}}
}

func endOptionsOf(c *urfave.Context, g *globals) (endOptions, error) {
	o := endOptions{output: g.Output.String(), dryRun: c.Bool("dry-run"), timeout: c.Duration("timeout"), stdout: c.App.Writer, stderr: c.App.ErrWriter}
	if o.timeout <= 0 {
		return o, usagef("--timeout must be more than 0, and is %s", o.timeout)
	}
	var err error
	o.side, err = openSide(g.Kubeconfig.String(), g.Context.String())
	return o, err
}

func (o endOptions) remove(ctx context.Context, name string) error {
	own, target, err := o.target(ctx, name)
	if err != nil {
		return err
	}
	if o.dryRun {
		return o.foretell(ctx, own, target)
	}
	progress := newProgress(o.stdout, o.stderr, o.output, time.Now())
	start := time.Now()
	key := meshKey(target)
	progress("removing cluster %s (%s), ordered by cluster %s", name, clusterIDOf(target), own.GetName())
	if err := o.side.ask(ctx, name, target.GetUID(), v1alpha1.AnnotationRemove, key); err != nil {
		return err
	}
	if err := o.awaitRemoved(ctx, own.GetName(), target, progress); err != nil {
		return err
	}
	progress("removed: every member refuses cluster %s", name)
	return o.printEnded(ended{Removed: name, ClusterID: clusterIDOf(target), By: own.GetName(), Seconds: time.Since(start).Round(time.Millisecond).Seconds()})
}

// target finds the cluster to be removed, and refuses what cannot be.
func (o endOptions) target(ctx context.Context, name string) (own, target *unstructured.Unstructured, err error) {
	if own, err = o.side.local(ctx); err != nil {
		return nil, nil, err
	}
	if why := removedFrom(own); why != "" {
		return nil, nil, o.side.errorf("%s", why)
	}
	all, err := o.side.clusters(ctx)
	if err != nil {
		return nil, nil, err
	}
	var names []string
	for i := range all {
		if all[i].GetName() == name {
			target = &all[i]
		}
		if clusterIDOf(&all[i]) != clusterIDOf(own) {
			names = append(names, all[i].GetName())
		}
	}
	switch {
	case target == nil && len(names) == 0:
		return nil, nil, usagef("no cluster %q in context %s: cluster %s is alone there", name, o.side.Context, own.GetName())
	case target == nil:
		return nil, nil, usagef("no cluster %q in context %s; it lists: %s", name, o.side.Context, strings.Join(names, ", "))
	case clusterIDOf(target) == clusterIDOf(own):
		return nil, nil, usagef("%s is the cluster of context %s itself; agentctl leave ends its membership", name, o.side.Context)
	case meshKey(target) == "":
		return nil, nil, o.side.errorf("cluster %s has no spec.mesh.publicKey: it is no member, and its object can just be deleted: kubectl --context %s delete cluster %s", name, o.side.Context, name)
	}
	return own, target, nil
}

func meshKey(cluster *unstructured.Unstructured) string {
	key, _, _ := unstructured.NestedString(cluster.Object, "spec", "mesh", "publicKey")
	return key
}

// removedFrom says why a cluster is not in its group any more; "" while it is.
func removedFrom(own *unstructured.Unstructured) string {
	c, err := typed(own)
	if err != nil {
		return ""
	}
	if cond := condition(c, v1alpha1.ConditionReady); cond != nil && cond.Reason == v1alpha1.MemberRemoved {
		return oneLine(cond.Message)
	}
	return ""
}

// ask sets an annotation by which a person asks the agent for something.
func (s *side) ask(ctx context.Context, name string, uid any, annotation, value string) error {
	client := s.client.Resource(clusterResource())
	for attempt := 0; ; attempt++ {
		there, err := client.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return s.errorf("read cluster %s: %w", name, err)
		}
		if any(there.GetUID()) != uid {
			return s.errorf("cluster %s was made anew meanwhile: nothing was asked for", name)
		}
		annotations := there.GetAnnotations()
		if annotations == nil {
			annotations = map[string]string{}
		}
		if annotations[annotation] == value {
			return nil
		}
		annotations[annotation] = value
		there.SetAnnotations(annotations)
		_, err = client.Update(ctx, there, metav1.UpdateOptions{FieldManager: "agentctl"})
		if !apierrors.IsConflict(err) || attempt >= writeAttempts {
			if err != nil {
				return s.errorf("annotate cluster %s: %w", name, err)
			}
			return nil
		}
	}
}

// awaitRemoved waits until the object of a cluster is gone, and the agent says that every member has confirmed it.
func (o endOptions) awaitRemoved(ctx context.Context, own string, target *unstructured.Unstructured, progress func(string, ...any)) error {
	name := target.GetName()
	return o.await(ctx, "cluster "+name+" is removed, but after %s not everybody has confirmed it:", progress, func(ctx context.Context) ([]string, error) {
		there, err := o.side.client.Resource(clusterResource()).Get(ctx, name, metav1.GetOptions{})
		if err == nil && there.GetUID() == target.GetUID() {
			return []string{"the agent of cluster " + own + " has not removed it yet: is it running?"}, nil
		}
		if err != nil && !apierrors.IsNotFound(err) {
			return nil, err
		}
		u, err := o.side.client.Resource(clusterResource()).Get(ctx, own, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		c, err := typed(u)
		if err != nil {
			return nil, err
		}
		cond := condition(c, v1alpha1.ConditionRemovalsConfirmed)
		if cond == nil {
			return []string{"the agent of cluster " + own + " has not told who has confirmed it"}, nil
		}
		waiting, found := v1alpha1.RemovalWaits(cond.Message, clusterIDOf(target))
		if !found && cond.Status != metav1.ConditionTrue {
			return []string{"other removals are waited for"}, nil
		}
		var lines []string
		for _, member := range waiting {
			lines = append(lines, "not confirmed by "+member)
		}
		return lines, nil
	})
}

// await calls look until it finds nothing missing, and shows what is when that changes.
func (o endOptions) await(ctx context.Context, late string, progress func(string, ...any), look func(context.Context) (missing []string, err error)) error {
	deadline := time.NewTimer(o.timeout)
	defer deadline.Stop()
	tick := time.NewTicker(waitPeriod)
	defer tick.Stop()
	var last string
	for {
		missing, err := look(ctx)
		if err != nil {
			missing = []string{"not readable now: " + oneLine(err.Error())}
		}
		if len(missing) == 0 {
			return nil
		}
		if now := first(missing); now != last {
			progress("%s", now)
			last = now
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("interrupted; the agents go on by themselves")
		case <-deadline.C:
			return &waitError{After: o.timeout, Missing: missing, Text: fmt.Sprintf(late, o.timeout)}
		}
	}
}

// ended is the result for a program.
type ended struct {
	Removed   string  `json:"removed,omitempty"`
	Left      string  `json:"left,omitempty"`
	ClusterID string  `json:"clusterID"`
	By        string  `json:"by,omitempty"`
	Note      string  `json:"note,omitempty"`
	Seconds   float64 `json:"seconds"`
}

func (o endOptions) printEnded(e ended) error {
	if o.output == "table" {
		return nil
	}
	return printDocument(o.stdout, o.output, e)
}
