// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// podsOfAgents are the chart's labels of the agent's pods.
const podsOfAgents = "app.kubernetes.io/part-of=roster,app.kubernetes.io/component=agent"

// agentSays is why the agent is not ready, in its own words: what its pod answers to /readyz, asked through the API
// server, or else why it has a pod that does not run. An agent that cannot have a Cluster object has nowhere else to say
// it but its log. It is "" where nothing is wrong, where no pod is found, as with an agent beside the cluster, and where
// you may not ask.
func (p *patient) agentSays(ctx context.Context, namespace string) string {
	list, err := p.side.client.Resource(coreResource("pods")).Namespace(namespace).List(ctx, metav1.ListOptions{LabelSelector: podsOfAgents, Limit: 10})
	if err != nil {
		return ""
	}
	idle := ""
	for i := range list.Items {
		var pod corev1.Pod
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(list.Items[i].Object, &pod); err != nil || pod.DeletionTimestamp != nil {
			continue
		}
		if text := notRunning(&pod); text != "" {
			idle = cmp.Or(idle, fmt.Sprintf("its pod %s does not run: %s", pod.Name, text))
			continue
		}
		path := fmt.Sprintf("api/v1/namespaces/%s/pods/%s:%d/proxy/readyz", namespace, pod.Name, httpPort(&pod))
		answer, body, err := p.fetch(ctx, path)
		if text := oneLine(string(body)); err == nil && answer.StatusCode == http.StatusServiceUnavailable && !strings.HasPrefix(text, "{") {
			return "its agent says of itself: " + text // what begins with { is the API server's, who did not reach it
		}
	}
	return idle
}

// notRunning is what the kubelet or the scheduler says of a pod that does not run.
func notRunning(pod *corev1.Pod) string {
	for _, c := range pod.Status.ContainerStatuses {
		if w := c.State.Waiting; w != nil {
			return strings.TrimSuffix(w.Reason+": "+w.Message, ": ")
		}
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return cmp.Or(c.Message, c.Reason)
		}
	}
	return ""
}

// httpPort is where the agent in a pod answers.
func httpPort(pod *corev1.Pod) int32 {
	for _, c := range pod.Spec.Containers {
		for _, port := range c.Ports {
			if port.Name == "http" {
				return port.ContainerPort
			}
		}
	}
	return 8080
}
