// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package hosted

import (
	"cmp"
	"context"
	"errors"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/cli"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/clusters"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/hosted/objects"
	view "github.com/roster-mesh/roster/kube/api/registry/v1alpha1"
)

// askTimeout bounds one question to the registry: an address that swallows packets must not hide why the pod does not run.
const askTimeout = 5 * time.Second

// wait is what is left of the time.
func (m *making) wait() cli.Wait {
	return cli.Wait{Timeout: max(time.Until(m.deadline), time.Millisecond), Progress: m.progress}
}

// awaitEndpoint returns when the Service has an address.
func (m *making) awaitEndpoint(ctx context.Context, service *unstructured.Unstructured) (at objects.Address, err error) {
	late := "registry " + m.Name + " has no address after %s; the same command again goes on waiting:"
	err = m.wait().For(ctx, late, func(ctx context.Context) ([]string, error) {
		var missing string
		var err error
		if at, missing, err = m.address(ctx, m.host, service, m.there.hosts()); err != nil || missing == "" {
			return nil, err
		}
		if service, err = m.resource(m.host, objects.Services()).Get(ctx, m.Name, metav1.GetOptions{}); err != nil {
			return nil, err
		}
		return []string{missing}, nil
	})
	return at, err
}

// awaitAnswer returns when the registry answers at its address.
func (m *making) awaitAnswer(ctx context.Context, access *rest.Config) error {
	registry, err := clusters.New(m.Name, access)
	if err != nil {
		return err
	}
	late := "everything is there, but registry " + m.Name + " did not answer within %s; the same command again goes on waiting:"
	return m.wait().For(ctx, late, func(ctx context.Context) ([]string, error) {
		asking, done := context.WithTimeout(ctx, askTimeout)
		defer done()
		_, err := registry.Dynamic.Resource(view.SchemeGroupVersion.WithResource("clusters")).List(asking, metav1.ListOptions{Limit: 1})
		if err == nil {
			return nil, nil
		}
		missing := []string{access.Host + " does not answer: " + clusters.Reason(err)}
		if why := m.podProblem(ctx); why != "" {
			missing = append([]string{why}, missing...)
		}
		return missing, nil
	})
}

// podProblem is why the pod does not run, as Kubernetes says it; "" where it says nothing, or may not be asked.
func (m *making) podProblem(ctx context.Context) string {
	pods, err := m.host.Dynamic.Resource(clusters.Core("pods")).Namespace(m.Namespace).List(ctx, metav1.ListOptions{
		LabelSelector: m.PodSelector(),
	})
	if err != nil {
		return ""
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		conditions, _, _ := unstructured.NestedSlice(pod.Object, "status", "conditions")
		for _, item := range conditions {
			if c, _ := item.(map[string]any); c["type"] == "PodScheduled" && c["status"] == "False" {
				return "pod " + pod.GetName() + " is not scheduled: " + said(c, "message")
			}
		}
		containers, _, _ := unstructured.NestedSlice(pod.Object, "status", "containerStatuses")
		for _, item := range containers {
			container, _ := item.(map[string]any)
			waiting, _, _ := unstructured.NestedMap(container, "state", "waiting")
			ended, _, _ := unstructured.NestedMap(container, "lastState", "terminated")
			if reason := said(waiting, "reason"); reason != "" && reason != "ContainerCreating" && reason != "PodInitializing" {
				return "pod " + pod.GetName() + ": " + reason + ": " + cmp.Or(said(ended, "message"), said(waiting, "message"))
			}
		}
	}
	return ""
}

// said is a text of a status, as one bounded line.
func said(status map[string]any, field string) string {
	text, _ := status[field].(string)
	return clusters.Reason(errors.New(text))
}
