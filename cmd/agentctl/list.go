// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	urfave "github.com/urfave/cli/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

func membersCommand(g *globals) *urfave.Command {
	return &urfave.Command{
		Name:  "members",
		Usage: "list the group's clusters as the mesh of one of them sees them",
		Action: func(c *urfave.Context) error {
			clusters, err := list(c, g)
			if err != nil || clusters == nil {
				return err
			}
			return printMembers(c, g.Output.String(), clusters)
		},
	}
}

func clustersCommand(g *globals) *urfave.Command {
	return &urfave.Command{
		Name:  "clusters",
		Usage: "list the group's clusters with their state and what they are",
		Action: func(c *urfave.Context) error {
			clusters, err := list(c, g)
			if err != nil || clusters == nil {
				return err
			}
			return printClusters(c, g.Output.String(), clusters)
		},
	}
}

// list reads the Cluster objects; nil and a line on standard error when there are none and nothing
// else is printed.
func list(c *urfave.Context, g *globals) ([]*v1alpha1.Cluster, error) {
	if err := noArguments(c); err != nil {
		return nil, err
	}
	s, err := openSide(g.Kubeconfig.String(), g.Context.String())
	if err != nil {
		return nil, err
	}
	clusters, err := s.typedClusters(c.Context)
	if err != nil {
		return nil, err
	}
	if len(clusters) == 0 && g.Output.String() == "table" {
		fmt.Fprintf(c.App.ErrWriter, "no clusters in context %s: its agent has not started yet\n", s.Context)
		return nil, nil
	}
	return clusters, nil
}

func (s *side) typedClusters(ctx context.Context) ([]*v1alpha1.Cluster, error) {
	all, err := s.clusters(ctx)
	if err != nil {
		return nil, err
	}
	out := make([]*v1alpha1.Cluster, 0, len(all))
	for i := range all {
		cluster, err := typed(&all[i])
		if err != nil {
			return nil, s.errorf("%w", err)
		}
		out = append(out, cluster)
	}
	return out, nil
}

type member struct {
	Name      string   `json:"name"`
	ClusterID string   `json:"clusterID"`
	Type      string   `json:"type"`
	State     string   `json:"state"`
	Since     string   `json:"since,omitempty"` // RFC 3339
	Endpoints []string `json:"endpoints"`

	since time.Time
}

func printMembers(c *urfave.Context, format string, clusters []*v1alpha1.Cluster) error {
	members := make([]member, 0, len(clusters))
	for _, cluster := range clusters {
		members = append(members, asMember(cluster))
	}
	if format != "table" {
		return printDocument(c.App.Writer, format, members)
	}
	return printTable(c.App.Writer, memberHeader(), memberRows(members, time.Now()))
}

// asMember reads the mesh's view from the condition Member, whose reason is the state.
func asMember(cluster *v1alpha1.Cluster) member {
	m := member{
		Name: cluster.Name, ClusterID: string(cluster.Spec.ClusterID), Type: string(cluster.Status.Type),
		State: v1alpha1.MemberUnknown, Endpoints: []string{},
	}
	if cluster.Spec.Mesh != nil && cluster.Spec.Mesh.Endpoints != nil {
		m.Endpoints = cluster.Spec.Mesh.Endpoints
	}
	if cond := condition(cluster, v1alpha1.ConditionMember); cond != nil {
		m.State = cond.Reason
		if !cond.LastTransitionTime.IsZero() {
			m.since = cond.LastTransitionTime.Time
			m.Since = m.since.UTC().Format(time.RFC3339)
		}
	}
	return m
}

func memberHeader() []string {
	return []string{"NAME", "CLUSTER ID", "TYPE", "STATE", "SINCE", "ENDPOINTS"}
}

func memberRows(members []member, now time.Time) [][]string {
	rows := make([][]string, 0, len(members))
	for _, m := range members {
		since := ""
		if !m.since.IsZero() {
			since = duration.HumanDuration(now.Sub(m.since))
		}
		rows = append(rows, []string{m.Name, m.ClusterID, m.Type, m.State, since, strings.Join(m.Endpoints, ",")})
	}
	return rows
}

type clusterLine struct {
	Name         string `json:"name"`
	Status       string `json:"status"`
	Type         string `json:"type"`
	Synced       string `json:"synced"`
	Version      string `json:"version"`
	Provider     string `json:"provider"`
	Distribution string `json:"distribution"`
	Region       string `json:"region"`
	Message      string `json:"message"`
}

func printClusters(c *urfave.Context, format string, clusters []*v1alpha1.Cluster) error {
	lines := make([]clusterLine, 0, len(clusters))
	for _, cluster := range clusters {
		lines = append(lines, asClusterLine(cluster))
	}
	if format != "table" {
		return printDocument(c.App.Writer, format, lines)
	}
	rows := make([][]string, 0, len(lines))
	for _, l := range lines {
		rows = append(rows, []string{l.Name, l.Status, l.Type, l.Synced, l.Version, l.Provider, l.Distribution, l.Region, l.Message})
	}
	return printTable(c.App.Writer, clusterHeader(), rows)
}

func clusterHeader() []string {
	return []string{"NAME", "STATUS", "TYPE", "SYNCED", "VERSION", "PROVIDER", "DISTRIBUTION", "REGION", "MESSAGE"}
}

func asClusterLine(cluster *v1alpha1.Cluster) clusterLine {
	st := cluster.Status
	l := clusterLine{
		Name: cluster.Name, Status: string(st.State), Type: string(st.Type), Version: st.Version,
		Provider: st.Provider, Distribution: st.Distribution, Message: message(cluster),
	}
	if st.Locality != nil {
		l.Region = st.Locality.Region
	}
	if cond := condition(cluster, v1alpha1.ConditionClustersSynced); cond != nil {
		l.Synced = string(cond.Status)
	}
	return l
}

// message is what is wrong with a cluster, if anything.
func message(cluster *v1alpha1.Cluster) string {
	if cluster.Status.Message != "" {
		return oneLine(cluster.Status.Message)
	}
	for _, kind := range []string{v1alpha1.ConditionReady, v1alpha1.ConditionClustersSynced, v1alpha1.ConditionMember} {
		if cond := condition(cluster, kind); cond != nil && cond.Status != metav1.ConditionTrue {
			return explain(cond)
		}
	}
	return ""
}
