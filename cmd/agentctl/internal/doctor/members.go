// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/cli"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/clusters"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/confirmations"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/doctor/waits"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// checkMembers repeats what each agent says of the others, and of itself, unless checkAPI tells that it has no Cluster object.
// Several that have no leader say it to those alone who ask them.
func checkMembers(ctx context.Context, x *inspection) []Finding {
	var out []Finding
	var known []*target
	for _, t := range x.targets {
		own := t.local()
		if own == nil {
			continue
		}
		known = append(known, t)
		if health, _ := clusters.MemberHealth(own); health == clusters.Healthy {
			if says := t.agentProblem(ctx, x.namespace); says != "" {
				out = append(out, Finding{Severity: Error, Cluster: t.name(), Message: says, Fix: x.agentLog(t)})
			}
		}
	}
	return append(out, x.written(known)...)
}

// written are the findings about what the agents of some targets have written: of themselves, what they ask a person to decide,
// and of every other cluster.
func (x *inspection) written(by []*target) (out []Finding) {
	for _, t := range by {
		for _, c := range t.clusters {
			if string(c.Spec.ClusterID) != t.id {
				continue
			}
			if d := x.ownFinding(t, c); d != nil {
				out = append(out, *d)
			}
			for _, d := range waits.In(c, t.flag()) {
				out = append(out, Finding{Severity: Warning, Cluster: t.name(), Message: d.Message, Fix: d.Fix})
			}
		}
	}
	return append(out, x.peerFindings(by)...)
}

// peerFindings are about the clusters that agents say something bad of: one where several say the same, with their number.
func (x *inspection) peerFindings(by []*target) []Finding {
	type said struct {
		id, name, text, fix string
		severity            Severity
	}
	var order []said
	names, asked := map[said][]string{}, map[string]int{}
	for _, t := range by {
		for _, c := range t.clusters {
			if !t.isPeer(c) {
				continue
			}
			id := string(c.Spec.ClusterID)
			health, message := clusters.MemberHealth(c)
			if asked[id]++; health == clusters.Healthy {
				continue
			}
			s := said{id, c.Name, message, x.memberFix(t, c), severityOf(health)}
			if names[s] == nil {
				order = append(order, s)
			}
			names[s] = append(names[s], t.name())
		}
	}
	out := make([]Finding, 0, len(order))
	for _, s := range order {
		who := "the agent in " + names[s][0] + " says"
		if n := len(names[s]); n > 1 {
			who = fmt.Sprintf("the agents in %s (%d of %d) say", cli.Brief(names[s]), n, asked[s.id])
		}
		out = append(out, Finding{Severity: s.severity, Cluster: s.name, Message: fmt.Sprintf("%s of %s: %s", who, s.name, s.text), Fix: s.fix})
	}
	return out
}

func severityOf(h clusters.Health) Severity {
	if h == clusters.Unknown {
		return Unknown
	}
	return Error
}

// ownFinding is about what an agent says of the cluster that it is in.
func (x *inspection) ownFinding(t *target, c *v1alpha1.Cluster) *Finding {
	health, message := clusters.MemberHealth(c)
	if health == clusters.Healthy {
		return nil
	}
	d := &Finding{Severity: severityOf(health), Cluster: c.Name, Message: "its agent says of itself: " + message, Fix: x.agentLog(t)}
	if cond := clusters.Condition(c, v1alpha1.ConditionLocalConflict); cond != nil && cond.Status == metav1.ConditionTrue {
		d.Message, d.Fix = "more than one Cluster object has this cluster's ID: "+cli.OneLine(cond.Message), t.kubectl("delete", "cluster", c.Name)
	} else if confirmations.WaitsForRestore(c) {
		return nil // checkRestore says it
	}
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
		return x.unreachedFix(c)
	}
	if ready == nil && member == nil { // nobody has looked at the object
		if own := t.local(); own != nil {
			return x.restart(own)
		}
	}
	return x.join(t, c)
}

// unreachedFix is about an API server that agents do not reach. Its address is wrong only if it answers somebody else.
func (x *inspection) unreachedFix(c *v1alpha1.Cluster) string {
	there, command := x.find(string(c.Spec.ClusterID)), "agentctl doctor"
	for i, t := range x.targets {
		if command += strings.Replace(t.flag(), "--context", "--peer-context", min(i, 1)); there == nil && t.apiErr != nil && t.client.Context == c.Name {
			there = t // who it is, it does not say
		}
	}
	switch {
	case there == nil: // ask it, too
		return command + " --peer-context " + cli.ShellWord(c.Name) + "  # the context of that cluster"
	case there.apiErr != nil:
		return there.kubectl("get", "--raw", "/readyz?verbose")
	}
	return fmt.Sprintf("helm upgrade %s charts/agent --namespace %s --reuse-values --set apiServerEndpointAddress=HOST:PORT  # in cluster %s, an address that the others reach",
		v1alpha1.DefaultServiceAccount, cli.ShellWord(x.namespace), cli.ShellWord(c.Name))
}
