// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"iter"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roster-mesh/roster/syncrules"
	"github.com/roster-mesh/roster/syncrules/engine/conflicts"
	"github.com/roster-mesh/roster/syncrules/engine/verdict"
)

// gatherVerdictLocked adds what is known of an object in the way of the copy.
func (e *Engine) gatherVerdictLocked(j *job) {
	known, noted := e.conflicts.KnownLocked(j.key, func() []verdict.Offer { return j.offers(nil) })
	j.foreign, j.absent, j.judged, j.verdict, j.recheck = noted, known.Absent, known.Judged, known.Verdict, known.Recheck
}

// written is the version in which the copy is looked at; none when no rule is about the kind.
func (j *job) written() schema.GroupVersionKind {
	if j.kind == nil {
		return schema.GroupVersionKind{}
	}
	return j.kind.written.GroupVersionKind
}

// offers are the claims that offer something; if w is given, something that can be rendered.
func (j *job) offers(w *weighed) (out []verdict.Offer) {
	for i := range j.claims {
		c := &j.claims[i]
		if c.Standing == syncrules.Offered && (w == nil || w.Claims[i].Standing == syncrules.Offered) {
			out = append(out, verdict.Offer{Origin: c.Origin, Content: c.content, Adopts: len(c.Adopters) > 0})
		}
	}
	return out
}

// rulesInPlaceLocked are the rules in force that move nothing, the oldest first.
func (e *Engine) rulesInPlaceLocked() iter.Seq[conflicts.Rule] {
	return func(yield func(conflicts.Rule) bool) {
		for _, r := range e.rules.byAge {
			if r.compiled == nil || r.moves || r.idle() {
				continue
			}
			if !yield(conflicts.Rule{Author: r.sharer(e.o.LocalClusterID), Scopes: r.scopes, Form: r.parsed}) {
				return
			}
		}
	}
}
