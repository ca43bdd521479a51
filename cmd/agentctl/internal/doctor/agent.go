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
	"github.com/roster-mesh/roster/cmd/agentctl/internal/doctor/agentpod"
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
		var got agentpod.Pod
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(list.Items[i].Object, &got); err != nil || got.Metadata.DeletionTimestamp != "" {
			continue
		}
		if text := got.NotRunning(); text != "" {
			idle = cmp.Or(idle, fmt.Sprintf("its pod %s does not run: %s", got.Metadata.Name, text))
			continue
		}
		path := fmt.Sprintf("api/v1/namespaces/%s/pods/%s:%d/proxy/readyz", namespace, got.Metadata.Name, got.HTTPPort())
		answer, body, err := t.fetch(ctx, path)
		if text := cli.OneLine(string(body)); err == nil && answer.StatusCode == http.StatusServiceUnavailable && !strings.HasPrefix(text, "{") {
			return "its agent says of itself: " + text // what begins with { is the API server's, who did not reach it
		}
	}
	return idle
}
