// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"slices"
	"strings"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/approve"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/cli"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/clusters"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/export"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/removals"
)

// names answers the shell's questions about contexts, clusters and rules.
func names(ctx context.Context, q cli.Question) []string {
	at := clusters.Access{Kubeconfig: q.Flags["kubeconfig"], Context: q.Flags["context"], As: q.Flags["as"]}
	switch q.Command + " --" + q.Flag {
	case "join --peer-context":
		if file := q.Flags["peer-kubeconfig"]; file != "" {
			at.Kubeconfig = file
		}
		return contextNames(at)
	case "rules explain --peer-context": // NAME=CONTEXT
		name, _, found := strings.Cut(q.Word, "=")
		if !found {
			return suffixed(clusterNames(ctx, at, false), "=")
		}
		return prefixed(name+"=", contextNames(at))
	case "rules explain --from", "rules adopt --from":
		return clusterNames(ctx, at, true)
	case "rules list --":
		return ruleNames(ctx, at)
	case "status --wait":
		return []string{clusters.Healthy.String()}
	case "rules explain --", "rules pause --", "rules resume --", "rules adopt --", "guard confirm --":
		if len(q.Args) == 0 {
			return ruleNames(ctx, at)
		}
	case "export --":
		return slices.DeleteFunc(clusterNames(ctx, at, true), func(name string) bool { return slices.Contains(q.Args, name) })
	case "bundle --output": // a file, which the shell knows
		return nil
	case "export --output":
		return slices.Sorted(slices.Values(export.Formats()))
	case "approve --":
		if len(q.Args) == 0 {
			return approve.Names(ctx, at)
		}
	case "removals confirm --":
		return slices.DeleteFunc(removals.Names(ctx, at), func(name string) bool { return slices.Contains(q.Args, name) })
	case "kubeconfig --", "kubeconfig --cluster":
		return slices.DeleteFunc(clusterNames(ctx, at, false), func(name string) bool { return slices.Contains(q.Args, name) })
	case "remove --", "credentials revoke --", "credential --", "accept --", "disable --", "enable --":
		if len(q.Args) == 0 {
			return clusterNames(ctx, at, false)
		}
	}
	switch q.Flag {
	case "context", "contexts", "host-cluster-context", "peer-context":
		return contextNames(at)
	case "output":
		return []string{"json", "jsonpath=", "name", "table", "wide", "yaml"}
	}
	return nil
}

func contextNames(at clusters.Access) []string {
	names, _ := at.Contexts() // a shell shows no error
	return names
}

// clusterNames are those of the Cluster objects; the cluster itself is among them if wanted.
func clusterNames(ctx context.Context, at clusters.Access, itself bool) []string {
	c, err := at.Open()
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
		if id := clusters.IDOf(&all[i]); itself || id == "" || id != own {
			out = append(out, all[i].GetName())
		}
	}
	return out
}

func ruleNames(ctx context.Context, at clusters.Access) []string {
	c, err := at.Open()
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
