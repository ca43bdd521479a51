// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/cli"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/clusters"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/doctor/waits"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// checkMembers repeats what each agent says of the others, and of itself, unless checkAPI tells that it has no Cluster object.
// Several that have no leader say it to those alone who ask them.
func checkMembers(ctx context.Context, x *inspection) []Finding {
	var out []Finding
	for _, t := range x.targets {
		own := t.local()
		if own == nil {
			continue
		}
		if health, _ := clusters.MemberHealth(own); health == clusters.Healthy {
			if says := t.agentProblem(ctx, x.namespace); says != "" {
				out = append(out, Finding{Severity: Error, Cluster: t.name(), Message: says, Fix: x.agentLog(t)})
			}
		}
		out = append(out, x.peerFindings(t)...)
	}
	return out
}

// peerFindings are about what a target's agent has written: of every cluster, and what it asks a person to decide.
func (x *inspection) peerFindings(t *target) (out []Finding) {
	for _, c := range t.clusters {
		if d := x.memberFinding(t, c); d != nil {
			out = append(out, *d)
		}
		if string(c.Spec.ClusterID) != t.id {
			continue
		}
		for _, d := range waits.In(c, t.flag()) {
			out = append(out, Finding{Severity: Warning, Cluster: t.name(), Message: d.Message, Fix: d.Fix})
		}
	}
	return out
}

// memberFinding looks at one Cluster object of a target.
func (x *inspection) memberFinding(t *target, c *v1alpha1.Cluster) *Finding {
	health, message := clusters.MemberHealth(c)
	if health == clusters.Healthy {
		return nil
	}
	d := &Finding{Severity: Error, Cluster: c.Name}
	if health == clusters.Unknown {
		d.Severity = Unknown
	}
	if string(c.Spec.ClusterID) == t.id {
		return x.ownFinding(t, c, d, message)
	}
	d.Message = fmt.Sprintf("the agent in %s says of %s: %s", t.name(), c.Name, message)
	d.Fix = x.memberFix(t, c)
	return d
}

func (x *inspection) ownFinding(t *target, c *v1alpha1.Cluster, d *Finding, message string) *Finding {
	if cond := clusters.Condition(c, v1alpha1.ConditionLocalConflict); cond != nil && cond.Status == metav1.ConditionTrue {
		d.Message, d.Fix = "more than one Cluster object has this cluster's ID: "+cli.OneLine(cond.Message), t.kubectl("delete", "cluster", c.Name)
		return d
	}
	if clusters.WaitsForRestore(c) {
		return nil // checkRestore says it
	}
	d.Message = "its agent says of itself: " + message
	d.Fix = x.agentLog(t)
	return d
}

// memberFix is the command that most likely fixes what an agent says of a peer.
func (x *inspection) memberFix(t *target, c *v1alpha1.Cluster) string {
	ready, member := clusters.Condition(c, v1alpha1.ConditionReady), clusters.Condition(c, v1alpha1.ConditionMember)
	if member != nil {
		switch member.Reason {
		case v1alpha1.MemberFailed, v1alpha1.MemberLeft, v1alpha1.MemberSuspect:
			return x.restart(c)
		}
	}
	if ready != nil && ready.Reason == "APIUnreachable" {
		return fmt.Sprintf("helm upgrade %s charts/agent --namespace %s --reuse-values --set apiServerEndpointAddress=HOST:PORT  # in cluster %s, an address that is reached from %s",
			v1alpha1.DefaultServiceAccount, cli.ShellWord(x.namespace), cli.ShellWord(c.Name), cli.ShellWord(t.name()))
	}
	if ready == nil && member == nil { // nobody has looked at the object
		if own := t.local(); own != nil {
			return x.restart(own)
		}
	}
	return x.join(t, c)
}
