// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/doctor"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/ui"
)

// pageUses is what the page shows of other commands, which it does not know.
func pageUses() ui.Uses {
	return ui.Uses{Findings: findings}
}

// findings are those of doctor.
func findings(ctx context.Context, namespace string, all []ui.Held) []ui.Finding {
	var in []doctor.Written
	for _, h := range all {
		in = append(in, doctor.Written{Client: h.Client, Clusters: h.Clusters, Rules: h.Rules})
	}
	var out []ui.Finding
	for _, f := range doctor.InWritten(ctx, namespace, in) {
		out = append(out, ui.Finding{Check: f.Check, Severity: string(f.Severity), Cluster: f.Cluster, Message: f.Message, Fix: f.Fix})
	}
	return out
}
