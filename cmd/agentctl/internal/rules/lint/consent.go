// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"strings"

	urfave "github.com/urfave/cli/v2"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/cli"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/syncrules/consent"
)

// ConsentFlags say what agents are told of in the chart, and cannot be read from a cluster.
func ConsentFlags() []urfave.Flag {
	return []urfave.Flag{
		&urfave.StringFlag{Name: "agent-namespace", Value: v1alpha1.DefaultNamespace, Usage: "`NAMESPACE` that the agents are installed in"},
		&urfave.StringSliceFlag{Name: "allow", Usage: "what the chart value consent.allow lists, `LIST=ENTRY` such as kinds=Node, secretTypes=helm.sh/release.v1, secretsAs=ConfigMap or namespaces=kube-public; may be repeated"},
	}
}

// ConsentOf reads the flags.
func ConsentOf(c *urfave.Context) (consent.Policy, error) {
	out := consent.Policy{Namespace: c.String("agent-namespace")}
	for _, text := range c.StringSlice("allow") {
		list, entry, _ := strings.Cut(text, "=")
		switch list {
		case "kinds":
			out.Kinds = append(out.Kinds, entry)
		case "secretTypes":
			out.SecretTypes = append(out.SecretTypes, entry)
		case "secretsAs":
			out.SecretsAs = append(out.SecretsAs, entry)
		case "namespaces":
			out.Namespaces = append(out.Namespaces, entry)
		default:
			return out, cli.Usagef("--allow must be kinds=, secretTypes=, secretsAs= or namespaces= with an entry, and is %q", text)
		}
	}
	if err := out.Check(); err != nil {
		return out, cli.Usagef("--allow: %s", err)
	}
	return out, nil
}
