// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"fmt"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/cli"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// kubectl is a command line for the target's cluster.
func (t *target) kubectl(args ...string) string {
	if t.client.InCluster {
		return commandLine("kubectl", args)
	}
	return commandLine("kubectl --context "+cli.ShellWord(t.client.Context), args)
}

// kubectlIn is a command line for any cluster, which says where to run it if no context of it is known.
func (x *inspection) kubectlIn(c *v1alpha1.Cluster, args ...string) string {
	if t := x.find(string(c.Spec.ClusterID)); t != nil {
		return t.kubectl(args...)
	}
	return commandLine("kubectl", args) + "  # in cluster " + cli.ShellWord(c.Name)
}

// flagOf ends a command for a cluster that t lists, and says where to run it if no context of it is known.
func (x *inspection) flagOf(t *target, id string) string {
	if of := x.find(id); of != nil {
		return of.flag()
	}
	for _, c := range t.clusters {
		if string(c.Spec.ClusterID) == id {
			return "  # in cluster " + cli.ShellWord(c.Name)
		}
	}
	return "  # in the cluster that it is from"
}

func commandLine(command string, args []string) string {
	for _, a := range args {
		command += " " + cli.ShellWord(a)
	}
	return command
}

// join is the command that swaps two clusters again.
func (x *inspection) join(t *target, c *v1alpha1.Cluster) string {
	to := c.Name + "  # the context of that cluster"
	if other := x.find(string(c.Spec.ClusterID)); other != nil {
		to = cli.ShellWord(other.client.Context)
	}
	return fmt.Sprintf("agentctl join --context %s --peer-context %s", cli.ShellWord(t.client.Context), to)
}

// restart is the command that starts an agent again.
func (x *inspection) restart(c *v1alpha1.Cluster) string {
	return x.kubectlIn(c, "-n", x.namespace, "rollout", "restart", "deployment,statefulset", "-l", podsOfAgents)
}

// agentLog is the command that shows what an agent wrote last; there may be three.
func (x *inspection) agentLog(t *target) string {
	return t.kubectl("-n", x.namespace, "logs", "-l", podsOfAgents, "--tail=20")
}

// install is the command that brings what the chart makes up to date.
func (x *inspection) install(t *target) string {
	where := ""
	if !t.client.InCluster {
		where = " --kube-context " + cli.ShellWord(t.client.Context)
	}
	return fmt.Sprintf("helm upgrade --install %s charts/agent%s --namespace %s --reuse-values", v1alpha1.DefaultServiceAccount, where, cli.ShellWord(x.namespace))
}
