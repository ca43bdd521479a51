// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package agentpod reads of a Pod whether the agent in it runs, and where it answers.
package agentpod

import (
	"cmp"
	"strings"
)

// Pod is what is read of a Pod: the whole type brings every kind of Kubernetes' core with it.
type Pod struct {
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

// NotRunning is what the kubelet or the scheduler says of a pod that does not run.
func (p *Pod) NotRunning() string {
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

// HTTPPort is where the agent in a pod answers.
func (p *Pod) HTTPPort() int32 {
	for _, c := range p.Spec.Containers {
		for _, port := range c.Ports {
			if port.Name == "http" {
				return port.ContainerPort
			}
		}
	}
	return 8080
}
