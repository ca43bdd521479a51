// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// checkMembers repeats what each agent says of the others, and of itself. One without a Cluster object of its own says
// nothing, as checkAPI tells; and several that have no leader say it to those alone who ask them.
func checkMembers(ctx context.Context, x *examination) []diagnosis {
	var out []diagnosis
	for _, p := range x.patients {
		own := p.local()
		if own == nil {
			continue
		}
		if memberOf(own, 0).Health == healthy {
			if says := p.agentSays(ctx, x.namespace); says != "" {
				out = append(out, diagnosis{Severity: isError, Cluster: p.name(), Message: says, Fix: x.agentLog(p)})
			}
		}
		for _, c := range p.clusters {
			if d := x.judgeMember(p, c); d != nil {
				out = append(out, *d)
			}
		}
	}
	return out
}

// judgeMember looks at one Cluster object of a patient.
func (x *examination) judgeMember(p *patient, c *v1alpha1.Cluster) *diagnosis {
	m := memberOf(c, 0)
	if m.Health == healthy {
		return nil
	}
	d := &diagnosis{Severity: isError, Cluster: c.Name}
	if m.Health == unclear {
		d.Severity = isUnknown
	}
	if string(c.Spec.ClusterID) == p.id {
		return x.judgeSelf(p, c, d, m)
	}
	d.Message = fmt.Sprintf("the agent in %s says of %s: %s", p.name(), c.Name, m.Message)
	d.Fix = x.memberFix(p, c)
	return d
}

func (x *examination) judgeSelf(p *patient, c *v1alpha1.Cluster, d *diagnosis, m memberView) *diagnosis {
	if cond := condition(c, v1alpha1.ConditionLocalConflict); cond != nil && cond.Status == metav1.ConditionTrue {
		d.Message, d.Fix = "more than one Cluster object has this cluster's ID: "+oneLine(cond.Message), p.kubectl("delete", "cluster", c.Name)
		return d
	}
	if waitsForRestore(c) {
		return nil // checkRestore says it
	}
	d.Message = "its agent says of itself: " + m.Message
	d.Fix = x.agentLog(p)
	return d
}

// memberFix is the command that most likely mends what an agent says of a peer.
func (x *examination) memberFix(p *patient, c *v1alpha1.Cluster) string {
	ready, member := condition(c, v1alpha1.ConditionReady), condition(c, v1alpha1.ConditionMember)
	if member != nil {
		switch member.Reason {
		case v1alpha1.MemberFailed, v1alpha1.MemberLeft, v1alpha1.MemberSuspect:
			return x.restart(c)
		}
	}
	if ready != nil && ready.Reason == "APIUnreachable" {
		return fmt.Sprintf("helm upgrade %s charts/agent --namespace %s --reuse-values --set apiServerEndpointAddress=HOST:PORT  # in cluster %s, an address that is reached from %s",
			v1alpha1.DefaultServiceAccount, shellWord(x.namespace), shellWord(c.Name), shellWord(p.name()))
	}
	if ready == nil && member == nil { // nobody has looked at the object
		if own := p.local(); own != nil {
			return x.restart(own)
		}
	}
	return x.join(p, c)
}
