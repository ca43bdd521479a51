// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/cli"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/clusters"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/syncrules"
	"github.com/roster-mesh/roster/syncrules/skew"
)

// checkRules finds the rules that have not been Ready for long.
func checkRules(_ context.Context, x *inspection) []Finding {
	var out []Finding
	for _, t := range x.targets {
		now := time.Now().Add(t.offset) // conditions are dated by the clock of the API server
		for _, rule := range t.rules {
			health, ready, changed := clusters.RuleHealth(rule)
			if health == clusters.Healthy || foundElsewhere(ready) {
				continue
			}
			// An agent does not come to know a field by waiting.
			if since := clusters.StuckSince(rule, ready, changed); now.Sub(since) >= x.stuckAfter || ready.Reason == skew.Reason {
				out = append(out, x.ruleFinding(t, rule, ready, since))
			}
		}
	}
	return append(out, x.notUnderstood()...)
}

// notUnderstood names, once for each rule, the members whose agents do not know a field that it uses. They say so themselves,
// where they can be asked; agents of schema 6 and earlier say that the rule is paused.
func (x *inspection) notUnderstood() []Finding {
	var out []Finding
	told, members := map[[2]string]bool{}, x.members()
	for _, t := range x.targets {
		for _, rule := range t.rules {
			needs := skew.Needs(&rule.Spec)
			for _, c := range members {
				key := [2]string{rule.Name, c.Name}
				if c.Status.AgentVersion == "" || c.Status.SchemaVersion >= needs || told[key] {
					continue
				}
				told[key] = true
				out = append(out, Finding{
					Severity: Warning, Cluster: c.Name, Fix: x.upgrade(c.Name, "the version of the newest agent of the group"),
					Message: fmt.Sprintf("its agent %s cannot understand rule %s, which needs schema version %d: the rule's copies there stay as they are", c.Status.AgentVersion, rule.Name, needs),
				})
			}
		}
	}
	return out
}

// foundElsewhere tells what another check has a command for.
func foundElsewhere(ready clusters.Readiness) bool {
	return slices.Contains([]string{"MissingPermission", "SourceMissingPermission", "SourceRestored", "DeletionGuard"}, ready.Reason)
}

// noNamespace is how an agent names the namespace that copies wait for.
var noNamespace = regexp.MustCompile(`: namespace ([a-z0-9]([-a-z0-9]*[a-z0-9])?) does not exist`)

func (x *inspection) ruleFinding(t *target, rule *v1alpha1.ResourceSyncRule, ready clusters.Readiness, since time.Time) Finding {
	d := Finding{
		Severity: Error, Cluster: t.name(), Reason: ready.Reason,
		Message: fmt.Sprintf("rule %s is not Ready since %s: %s: %s", rule.Name, since.UTC().Format(time.RFC3339), ready.Reason, ready.Message),
		Fix:     fmt.Sprintf("agentctl rules explain %s%s", cli.ShellWord(rule.Name), t.flag()),
	}
	switch ready.Reason {
	case clusters.NotLookedAt:
		d.Severity = Unknown
		if own := t.local(); own != nil {
			d.Fix = x.restart(own)
		}
	case "Paused":
		d.Severity, d.Fix = Warning, x.resume(t, rule)
	case skew.Reason:
		d.Fix = x.upgrade(t.name(), "the version of the newest agent of the group")
	case "NamespaceMissing":
		if found := noNamespace.FindStringSubmatch(ready.Message); found != nil {
			d.Fix = t.kubectl("create", "namespace", found[1])
		}
	}
	return d
}

// resume is the command that lets a rule go on, in the cluster that it is from.
func (x *inspection) resume(t *target, rule *v1alpha1.ResourceSyncRule) string {
	return "agentctl rules resume " + cli.ShellWord(rule.Name) + x.flagOf(t, cmp.Or(syncrules.Owner(rule), t.id))
}
