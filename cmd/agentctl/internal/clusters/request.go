// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/cli"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// WriteAttempts bounds the rounds against an agent that updates the same object at the same time.
const WriteAttempts = 5

// Annotate sets an annotation on a Cluster, by which a person asks the agent for something. It refuses when the object is
// another one by now.
func (c *Client) Annotate(ctx context.Context, cluster *unstructured.Unstructured, annotation, value string) error {
	client, name := c.Dynamic.Resource(ClusterResource()), cluster.GetName()
	for attempt := 0; ; attempt++ {
		there, err := client.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return c.Errorf("read cluster %s: %w", name, err)
		}
		if there.GetUID() != cluster.GetUID() {
			return c.Errorf("cluster %s was deleted and created again meanwhile: nothing was asked for", name)
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
		_, err = client.Update(ctx, there, metav1.UpdateOptions{FieldManager: FieldManager})
		if err == nil {
			return nil
		}
		if !apierrors.IsConflict(err) || attempt >= WriteAttempts {
			return c.Errorf("annotate cluster %s: %w", name, err)
		}
	}
}

// GiveUpKey has the agent give up the key of its cluster, and returns what it says when it is alone under another.
func (c *Client) GiveUpKey(ctx context.Context, own *unstructured.Unstructured, wait cli.Wait) (note string, err error) {
	key := MeshKey(own)
	if key == "" {
		return "", c.Errorf("cluster %s has no spec.mesh.publicKey; the agent fills it in when it runs", own.GetName())
	}
	wait.Progress("cluster %s (context %s) gives up its key", own.GetName(), c.Context)
	if err := c.Annotate(ctx, own, v1alpha1.AnnotationLeave, key); err != nil {
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
