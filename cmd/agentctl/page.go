// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/doctor"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/rules/explain"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/ui"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/ui/view"
	"github.com/roster-mesh/roster/syncrules/consent"
)

// pageUses is what the page shows of other commands, which it does not know.
func pageUses() ui.Uses {
	return ui.Uses{Findings: findings, Explain: explanation}
}

// findings are those of doctor.
func findings(ctx context.Context, namespace string, all []view.Held) []view.Finding {
	var in []doctor.Written
	for _, h := range all {
		in = append(in, doctor.Written{Client: h.Client, Clusters: h.Clusters, Rules: h.Rules, Problem: h.Problem})
	}
	var out []view.Finding
	for _, f := range doctor.InWritten(ctx, namespace, in) {
		out = append(out, view.Finding{Check: f.Check, Severity: string(f.Severity), Cluster: f.Cluster, Message: f.Message, Fix: f.Fix, Reason: f.Reason})
	}
	return out
}

// explanation is that of rules explain, which tells by its exit code what it found.
func explanation(ctx context.Context, q ui.Question) ([]byte, error) {
	o := &explain.Options{
		Access: q.Access, Subject: []string{q.Kind, q.Name}, Namespace: q.Namespace, PeerContexts: q.PeerContexts,
		NoDryRun: true, // whose contexts they are, only the servers say
		Network:  "default", Consent: consent.Policy{Namespace: q.AgentNamespace},
	}
	return documentOf(ctx, o)
}
