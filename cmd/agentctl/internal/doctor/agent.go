// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/cli"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/clusters"
)

// podsOfAgents are the chart's labels of the agent's pods.
const podsOfAgents = "app.kubernetes.io/part-of=roster,app.kubernetes.io/component=agent"

// agentProblem is why the agent is not ready, in its own words: what its pod answers to /readyz, asked through the API
// server, or else why it has a pod that does not run. An agent that cannot have a Cluster object has nowhere else to say
// it but its log. It is "" where nothing is wrong, where no pod is found, as with an agent beside the cluster, and where
// you may not ask.
func (t *target) agentProblem(ctx context.Context, namespace string) string {
	list, err := t.client.Dynamic.Resource(clusters.Core("pods")).Namespace(namespace).List(ctx, metav1.ListOptions{LabelSelector: podsOfAgents, Limit: 10})
	if err != nil {
		return ""
	}
	idle := ""
	for i := range list.Items {
		var got pod
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(list.Items[i].Object, &got); err != nil || got.Metadata.DeletionTimestamp != "" {
			continue
		}
		if text := got.notRunning(); text != "" {
			idle = cmp.Or(idle, fmt.Sprintf("its pod %s does not run: %s", got.Metadata.Name, text))
			continue
		}
		path := fmt.Sprintf("api/v1/namespaces/%s/pods/%s:%d/proxy/readyz", namespace, got.Metadata.Name, got.httpPort())
		answer, body, err := t.fetch(ctx, path)
		if text := cli.OneLine(string(body)); err == nil && answer.StatusCode == http.StatusServiceUnavailable && !strings.HasPrefix(text, "{") {
			return "its agent says of itself: " + text // what begins with { is the API server's, who did not reach it
		}
	}
	return idle
}

// pod is what is read of a Pod: the whole type brings every kind of Kubernetes' core with it.
type pod struct {
	Metadata struct {
		Name              string `json:"name"`
		DeletionTimestamp string `json:"deletionTimestamp"`
	} `json:"metadata"`
	Spec struct {
		Containers []struct {
			Ports []struct {
				Name          string `json:"name"`
				ContainerPort int32  `json:"containerPort"`
			} `json:"ports"`
		} `json:"containers"`
	} `json:"spec"`
	Status struct {
		Conditions []struct {
			Type    string `json:"type"`
			Status  string `json:"status"`
			Reason  string `json:"reason"`
			Message string `json:"message"`
		} `json:"conditions"`
		ContainerStatuses []struct {
			State struct {
				Waiting *struct {
					Reason  string `json:"reason"`
					Message string `json:"message"`
				} `json:"waiting"`
			} `json:"state"`
		} `json:"containerStatuses"`
	} `json:"status"`
}

// notRunning is what the kubelet or the scheduler says of a pod that does not run.
func (p *pod) notRunning() string {
	for _, c := range p.Status.ContainerStatuses {
		if w := c.State.Waiting; w != nil {
			return strings.TrimSuffix(w.Reason+": "+w.Message, ": ")
		}
	}
	for _, c := range p.Status.Conditions {
		if c.Type == "PodScheduled" && c.Status == "False" {
			return cmp.Or(c.Message, c.Reason)
		}
	}
	return ""
}

// httpPort is where the agent in a pod answers.
func (p *pod) httpPort() int32 {
	for _, c := range p.Spec.Containers {
		for _, port := range c.Ports {
			if port.Name == "http" {
				return port.ContainerPort
			}
		}
	}
	return 8080
}
