// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"context"
	"maps"
	"reflect"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/cli"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// WriteAttempts bounds the rounds against an agent that updates the same object at the same time.
const WriteAttempts = 5

// Annotate sets annotations on a Cluster, by which a person asks the agent for something. It refuses when the object is
// another one by now. With metav1.DryRunAll nothing is written.
func (c *Client) Annotate(ctx context.Context, cluster *unstructured.Unstructured, values map[string]string, dryRun ...string) error {
	return c.Change(ctx, c.Dynamic.Resource(ClusterResource()), cluster, func(there *unstructured.Unstructured) error {
		annotations := there.GetAnnotations()
		if annotations == nil {
			annotations = map[string]string{}
		}
		maps.Copy(annotations, values)
		there.SetAnnotations(annotations)
		return nil
	}, dryRun...)
}

// Change edits an object that was read before, as it is now, against an agent that updates it at the same time. It refuses when
// the object is another one by now, or edit says why. With metav1.DryRunAll nothing is written, and the API server says whether
// it could be.
func (c *Client) Change(ctx context.Context, objects dynamic.ResourceInterface, obj *unstructured.Unstructured,
	edit func(there *unstructured.Unstructured) error, dryRun ...string,
) error {
	name := strings.ToLower(obj.GetKind()) + " " + obj.GetName()
	for attempt := 0; ; attempt++ {
		there, err := objects.Get(ctx, obj.GetName(), metav1.GetOptions{})
		if err != nil {
			return c.Errorf("read %s: %w", name, err)
		}
		if there.GetUID() != obj.GetUID() {
			return c.Errorf("%s was deleted and created again meanwhile: nothing was changed", name)
		}
		before := there.DeepCopy()
		if err := edit(there); err != nil {
			return c.Errorf("%s: %w", name, err)
		}
		if reflect.DeepEqual(before.Object, there.Object) {
			return nil
		}
		_, err = objects.Update(ctx, there, metav1.UpdateOptions{FieldManager: FieldManager, DryRun: dryRun})
		if err == nil {
			return nil
		}
		if !apierrors.IsConflict(err) || attempt >= WriteAttempts {
			return c.Errorf("change %s: %w", name, err)
		}
	}
}

// DryRun is what makes a write one on trial, if it is to be one.
func DryRun(on bool) []string {
	if on {
		return []string{metav1.DryRunAll}
	}
	return nil
}

// Rule reads a rule.
func (c *Client) Rule(ctx context.Context, name string) (*unstructured.Unstructured, *v1alpha1.ResourceSyncRule, error) {
	u, err := c.Dynamic.Resource(RuleResource()).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil, c.Errorf("no rule %q; `agentctl rules list` shows what there is", name)
	}
	if err != nil {
		return nil, nil, c.Errorf("read rule %s: %w", name, err)
	}
	var rule v1alpha1.ResourceSyncRule
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &rule); err != nil {
		return nil, nil, c.Errorf("read rule %s: %w", name, err)
	}
	return u, &rule, nil
}

// GiveUpKey has the agent give up the key of its cluster, and returns what it says when it is alone under another.
func (c *Client) GiveUpKey(ctx context.Context, own *unstructured.Unstructured, wait cli.Wait) (note string, err error) {
	key := MeshKey(own)
	if key == "" {
		return "", c.Errorf("cluster %s has no spec.mesh.publicKey; the agent fills it in when it runs", own.GetName())
	}
	wait.Progress("cluster %s (context %s) gives up its key", own.GetName(), c.Context)
	if err := c.Annotate(ctx, own, map[string]string{v1alpha1.AnnotationLeave: key}); err != nil {
		return "", err
	}
	late := "cluster " + own.GetName() + " was asked to leave, but after %s has not:"
	err = wait.For(ctx, late, func(ctx context.Context) ([]string, error) {
		u, err := c.Dynamic.Resource(ClusterResource()).Get(ctx, own.GetName(), metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		cluster, err := DecodeCluster(u)
		if err != nil {
			return nil, err
		}
		cond := Condition(cluster, v1alpha1.ConditionClustersSynced)
		switch {
		case MeshKey(u) == key && cluster.Status.Message != "":
			return []string{cli.OneLine(cluster.Status.Message)}, nil
		case MeshKey(u) == key:
			return []string{"its agent has not given up the key yet: is it running?"}, nil
		case cond == nil || cond.ObservedGeneration < cluster.Generation:
			return []string{"its agent is restarting"}, nil
		}
		note = "it has a new key"
		if cond.Status == metav1.ConditionTrue && cond.Message != "" {
			note = cli.OneLine(cond.Message)
		}
		return nil, nil
	})
	return note, err
}
