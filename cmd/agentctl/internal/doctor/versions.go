// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"fmt"

	kubeversion "k8s.io/apimachinery/pkg/util/version"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/cli"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/versions"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// maxMinors is how many minor versions of Kubernetes the clusters of a group may be clockDifferences: the newest three
// are supported.
const maxMinors = 2

// checkVersions compares the versions that the clusters report.
func checkVersions(_ context.Context, x *inspection) []Finding {
	var out []Finding
	var newest *kubeversion.Version
	members := x.members()
	parsed := make([]*kubeversion.Version, len(members))
	for i, c := range members {
		v, err := kubeversion.ParseGeneric(c.Status.Version)
		if err != nil {
			out = append(out, Finding{
				Severity: Unknown, Cluster: c.Name, Message: "its Kubernetes version is not known: its agent has not reported one", Fix: x.restart(c),
			})
			continue
		}
		if parsed[i] = v; newest == nil || newest.LessThan(v) {
			newest = v
		}
	}
	out = append(out, x.agentVersions(members)...)
	for i, c := range members {
		if v := parsed[i]; v != nil {
			out = append(out, x.versionFindings(c, v, newest)...)
		}
	}
	return out
}

func (x *inspection) versionFindings(c *v1alpha1.Cluster, v, newest *kubeversion.Version) []Finding {
	var out []Finding
	if v.Major() != newest.Major() || newest.Minor()-v.Minor() > maxMinors {
		out = append(out, Finding{
			Severity: Warning, Cluster: c.Name,
			Message: fmt.Sprintf("its Kubernetes %s is more than %d minor versions older than the newest of the group, %s: upgrade it", v, maxMinors, newest),
			Fix:     "kubeadm upgrade plan  # or what your provider has for it, in cluster " + cli.ShellWord(c.Name),
		})
	}
	for _, text := range c.Status.KubeletVersions {
		if kubelet, err := kubeversion.ParseGeneric(text); err == nil && kubelet.Major() == v.Major() && kubelet.Minor() > v.Minor() {
			out = append(out, Finding{
				Severity: Warning, Cluster: c.Name, Message: fmt.Sprintf("a kubelet of version %s is newer than the API server, %s, which Kubernetes does not support", kubelet, v),
				Fix: x.kubectlIn(c, "get", "nodes"),
			})
		}
	}
	return out
}

// agentVersions says which agents do not work together by the promise of their versions, see agentctl version.
// Versions that say nothing, as those of a build by hand, are not judged.
func (x *inspection) agentVersions(members []*v1alpha1.Cluster) []Finding {
	var out []Finding
	for _, c := range members {
		mine := versions.Parse(c.Status.AgentVersion)
		for _, other := range members {
			theirs := versions.Parse(other.Status.AgentVersion)
			if versions.Skew(mine, theirs) != versions.SkewExceeded || !mine.LessThan(theirs) {
				continue
			}
			out = append(out, Finding{
				Severity: Warning, Cluster: c.Name,
				Message: fmt.Sprintf("its agent %s is more than one minor version older than that of %s, %s: upgrade it", mine, other.Name, theirs),
				Fix:     x.upgrade(c.Name, "version "+theirs.String()),
			})
			break
		}
	}
	return out
}

// upgrade is the command that upgrades the agent of a cluster.
func (x *inspection) upgrade(cluster, to string) string {
	return fmt.Sprintf("helm upgrade %s charts/agent --namespace %s --reuse-values  # of %s, in cluster %s",
		v1alpha1.DefaultServiceAccount, cli.ShellWord(x.namespace), to, cli.ShellWord(cluster))
}
