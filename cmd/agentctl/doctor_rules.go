// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// checkRules finds the rules that have not been Ready for long. What another check has a command for is left
// to it.
func checkRules(_ context.Context, x *examination) []diagnosis {
	var out []diagnosis
	for _, p := range x.patients {
		now := time.Now().Add(p.offset) // conditions are dated by the clock of the API server
		for _, rule := range p.rules {
			r := ruleViewOf(rule)
			elsewhere := slices.Contains([]string{"MissingPermission", "SourceMissingPermission", "SourceRestored", "DeletionGuard"}, r.Ready.Reason)
			if since := r.stuckSince(rule); r.Health != healthy && !elsewhere && now.Sub(since) >= x.stuckAfter {
				out = append(out, x.judgeRule(p, r, since))
			}
		}
	}
	return out
}

// stuckSince is the last change of the condition; of a rule that nobody has looked at, its age.
func (r ruleView) stuckSince(rule *v1alpha1.ResourceSyncRule) time.Time {
	if r.Ready.Reason == notLookedAt && r.since.Before(rule.CreationTimestamp.Time) || r.since.IsZero() {
		return rule.CreationTimestamp.Time
	}
	return r.since
}

// noNamespace is how an agent names the namespace that copies wait for.
var noNamespace = regexp.MustCompile(`: namespace ([a-z0-9]([-a-z0-9]*[a-z0-9])?) does not exist`)

func (x *examination) judgeRule(p *patient, r ruleView, since time.Time) diagnosis {
	d := diagnosis{
		Severity: isError, Cluster: p.name(),
		Message: fmt.Sprintf("rule %s is not Ready since %s: %s: %s", r.Name, since.UTC().Format(time.RFC3339), r.Ready.Reason, r.Ready.Message),
		Fix:     fmt.Sprintf("agentctl rules explain %s%s", shellWord(r.Name), p.flag()),
	}
	switch r.Ready.Reason {
	case notLookedAt:
		d.Severity = isUnknown
		if own := p.local(); own != nil {
			d.Fix = x.restart(own)
		}
	case "Paused":
		d.Severity, d.Fix = isWarning, p.kubectl("patch", "resourcesyncrule", r.Name, "--type=merge", "-p", `{"spec":{"paused":false}}`)
	case "NamespaceMissing":
		if found := noNamespace.FindStringSubmatch(r.Ready.Message); found != nil {
			d.Fix = p.kubectl("create", "namespace", found[1])
		}
	}
	return d
}
