// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package bundle

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/clusters"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/fleet"
	"github.com/roster-mesh/roster/syncrules"
)

const (
	// maxPods is how many pods of a cluster are asked for logs and metrics: three agents and two servers are usual.
	maxPods = 10
	// maxContainers bounds those of a pod in the same way.
	maxContainers = 4
	// logLines are read of each log, and maxLog bytes of these kept, the last ones.
	logLines = 5000
	maxLog   = 1 << 20
	// partOfRoster is the chart's label of its pods.
	partOfRoster = "app.kubernetes.io/part-of=roster"
)

// pod is what is kept of a Pod: not its environment, nor its volumes.
type pod struct {
	Metadata struct {
		Name              string            `json:"name"`
		Labels            map[string]string `json:"labels,omitempty"`
		CreationTimestamp string            `json:"creationTimestamp,omitempty"`
		DeletionTimestamp string            `json:"deletionTimestamp,omitempty"`
	} `json:"metadata"`
	Spec struct {
		NodeName   string      `json:"nodeName,omitempty"`
		Containers []container `json:"containers"`
	} `json:"spec"`
	Status struct {
		Phase             string            `json:"phase"`
		Reason            string            `json:"reason,omitempty"`
		Message           string            `json:"message,omitempty"`
		Conditions        []podCondition    `json:"conditions,omitempty"`
		ContainerStatuses []containerStatus `json:"containerStatuses,omitempty"`
	} `json:"status"`
}

type container struct {
	Name  string `json:"name"`
	Image string `json:"image"`
	Ports []struct {
		Name          string `json:"name,omitempty"`
		ContainerPort int32  `json:"containerPort"`
	} `json:"ports,omitempty"`
}

type podCondition struct {
	Type               string `json:"type"`
	Status             string `json:"status"`
	Reason             string `json:"reason,omitempty"`
	Message            string `json:"message,omitempty"`
	LastTransitionTime string `json:"lastTransitionTime,omitempty"`
}

type containerStatus struct {
	Name         string         `json:"name"`
	ImageID      string         `json:"imageID,omitempty"`
	Ready        bool           `json:"ready"`
	RestartCount int32          `json:"restartCount"`
	State        containerState `json:"state"`
	LastState    containerState `json:"lastState"`
}

type containerState struct {
	Waiting *struct {
		Reason  string `json:"reason,omitempty"`
		Message string `json:"message,omitempty"`
	} `json:"waiting,omitempty"`
	Running *struct {
		StartedAt string `json:"startedAt,omitempty"`
	} `json:"running,omitempty"`
	Terminated *struct {
		ExitCode   int32  `json:"exitCode"`
		Reason     string `json:"reason,omitempty"`
		Message    string `json:"message,omitempty"`
		FinishedAt string `json:"finishedAt,omitempty"`
	} `json:"terminated,omitempty"`
}

// GetName is the name of the pod.
func (p *pod) GetName() string { return p.Metadata.Name }

// pods adds the pods of Roster, with the metrics and logs of each.
func (q *question) pods(ctx context.Context) {
	all, err := fleet.ListIn[pod](ctx, q.Member, clusters.Core("pods"), syncrules.Scope{Namespace: q.namespace, LabelSelector: partOfRoster})
	if none := (*clusters.NotInstalledError)(nil); errors.As(err, &none) { // as a standalone API server says
		err = nil
	}
	if err != nil {
		q.miss("pods, with logs and metrics", err)
		return
	}
	q.list("pods.json", all, nil)
	if len(all) == 0 {
		q.note("namespace %s has no pods of Roster: an agent that runs elsewhere has its logs and metrics there", q.namespace)
	}
	for i, p := range all {
		switch {
		case i >= maxPods:
			q.miss("logs and metrics of more pods", fmt.Errorf("there are %d pods, and %d are asked", len(all), maxPods))
			return
		case len(validation.IsDNS1123Subdomain(p.GetName())) > 0:
			q.miss("logs and metrics of a pod", errors.New("no Pod can have its name"))
		default:
			q.pod(ctx, p)
		}
	}
}

// pod adds the metrics and the logs of one pod.
func (q *question) pod(ctx context.Context, p *pod) {
	folder := "pods/" + p.GetName() + "/"
	at := "/api/v1/namespaces/" + q.namespace + "/pods/" + p.GetName()
	restarts := map[string]int32{}
	for _, s := range p.Status.ContainerStatuses {
		restarts[s.Name] = s.RestartCount
	}
	for i, c := range p.Spec.Containers {
		if i >= maxContainers || len(validation.IsDNS1123Label(c.Name)) > 0 {
			q.miss(folder+"more logs", fmt.Errorf("it has %d containers, or one with a name that none can have", len(p.Spec.Containers)))
			return
		}
		for _, port := range c.Ports {
			if port.Name == "http" {
				data, err := fleet.Read(ctx, q.Member, at+":"+strconv.Itoa(int(port.ContainerPort))+"/proxy/metrics", nil)
				q.put(folder+c.Name+".metrics", data, err)
			}
		}
		q.log(ctx, at, folder, c.Name, false)
		if restarts[c.Name] > 0 {
			q.log(ctx, at, folder, c.Name, true)
		}
	}
}

// log adds the end of a container's log, or of that before its last restart.
func (q *question) log(ctx context.Context, at, folder, name string, previous bool) {
	file := folder + name + ".log"
	if previous {
		file = folder + name + ".previous.log"
	}
	data, err := fleet.Read(ctx, q.Member, at+"/log", map[string]string{
		"container": name, "tailLines": strconv.Itoa(logLines), "previous": strconv.FormatBool(previous),
	})
	data = withoutCredentials(data) // the end of one that is cut looks like nothing
	if len(data) > maxLog {
		data = data[len(data)-maxLog:]
		q.note("%s: its last %d MiB", file, maxLog>>20)
	}
	q.put(file, data, err)
}
