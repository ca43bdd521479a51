// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"context"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/rules/explain/answer"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/rules/explain/stand"
	"github.com/roster-mesh/roster/syncrules"
	"github.com/roster-mesh/roster/syncrules/drift"
)

// asIf is the offer as if rules that only look wrote.
func (o *offer) asIf() *offer {
	out := *o
	out.rules = slices.Concat(o.rules, o.looks)
	slices.SortFunc(out.rules, func(a, b *syncrules.Rule) int { return strings.Compare(a.Name(), b.Name()) })
	out.stops = slices.DeleteFunc(slices.Clone(o.stops), func(e syncrules.Evidence) bool {
		return e.Observes != "" && e.Relation == syncrules.Asks
	})
	return &out
}

// look says what rules that only look would do in a place, as their agent does: by a second decision, that nobody acts on.
func (q *inquiry) look(ctx context.Context, out *answer.Copy, to *reached, local *unstructured.Unstructured, offers []*offer, ask bool) {
	names := out.Rules
	if local != nil && len(names) == 0 {
		names = syncrules.MadeBy(local)
	}
	var lookers []string
	for _, name := range names {
		if r := q.rule(name); r != nil && r.compiled != nil && r.compiled.Manner().Observes {
			lookers = append(lookers, name)
		}
	}
	if len(lookers) == 0 || to.api == nil {
		return
	}
	would := *q
	would.asIf = true
	facts := would.facts(ctx, to, local, offers)
	d := syncrules.Plan(facts)
	out.Observed = "rule " + strings.Join(lookers, ", ") + " only observes: the object " + stand.Look(facts, d)
	if len(lookers) < len(names) {
		return // other rules copy
	}
	out.State, out.Reason, out.Action = stand.Observed, "", syncrules.None.String()
	if kind := drift.Of(d, local); kind == drift.Missing || kind == drift.Differs {
		out.Owner, out.OwnerID = q.title(d.Owner), d.Owner
		q.compare(ctx, out, local, d, to, q.redaction(facts, d, offers), ask)
	}
}
