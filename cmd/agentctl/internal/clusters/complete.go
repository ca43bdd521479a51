// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"context"
	"slices"
	"strings"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/cli"
)

// Names answers the shell's questions about contexts, clusters and rules.
func Names(ctx context.Context, q cli.Question) []string {
	at := Access{Kubeconfig: q.Flags["kubeconfig"], Context: q.Flags["context"]}
	switch q.Command + " --" + q.Flag {
	case "join --peer-context":
		if file := q.Flags["peer-kubeconfig"]; file != "" {
			at.Kubeconfig = file
		}
		return at.contextNames()
	case "rules explain --peer-context": // NAME=CONTEXT
		name, _, found := strings.Cut(q.Word, "=")
		if !found {
			return suffixed(at.clusterNames(ctx, false), "=")
		}
		return prefixed(name+"=", at.contextNames())
	case "rules explain --from":
		return at.clusterNames(ctx, true)
	case "rules list --":
		return at.ruleNames(ctx)
	case "rules explain --":
		if len(q.Args) == 0 {
			return at.ruleNames(ctx)
		}
	case "remove --":
		if len(q.Args) == 0 {
			return at.clusterNames(ctx, false)
		}
	default:
		if q.Flag == "context" || q.Flag == "peer-context" {
			return at.contextNames()
		}
	}
	return nil
}

func (a Access) contextNames() []string {
	names, _ := a.Contexts() // a shell shows no error
	return names
}

// clusterNames are those of the Cluster objects; the cluster itself is among them if wanted.
func (a Access) clusterNames(ctx context.Context, itself bool) []string {
	c, err := a.Open()
	if err != nil {
		return nil
	}
	all, err := c.ClusterObjects(ctx)
	if err != nil {
		return nil
	}
	own := ""
	if !itself {
		own, _ = c.ClusterID(ctx)
	}
	var out []string
	for i := range all {
		if id := IDOf(&all[i]); itself || id == "" || id != own {
			out = append(out, all[i].GetName())
		}
	}
	return out
}

func (a Access) ruleNames(ctx context.Context) []string {
	c, err := a.Open()
	if err != nil {
		return nil
	}
	rules, err := c.Rules(ctx)
	if err != nil {
		return nil
	}
	var out []string
	for _, rule := range rules {
		out = append(out, rule.Name)
	}
	return out
}

func prefixed(prefix string, names []string) []string {
	out := slices.Clone(names)
	for i := range out {
		out[i] = prefix + out[i]
	}
	return out
}

func suffixed(names []string, suffix string) []string {
	out := slices.Clone(names)
	for i := range out {
		out[i] += suffix
	}
	return out
}
