// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/clusters"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/rules/explain/load"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/rules/explain/verdict"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/syncrules"
	"github.com/roster-mesh/roster/syncrules/consent"
)

// offer is what one cluster has for one place in another.
type offer struct {
	from  *reached
	obj   *unstructured.Unstructured
	rules []*syncrules.Rule    // that copy it, by name
	names []string             // of all rules that select it
	held  string               // why copies of it stay as they are, as it says itself
	stops []syncrules.Evidence // of rules that select it and do not copy now
	looks []*syncrules.Rule    // of those, which would if they did not only look
	into  string               // the namespace of the place
}

// sourceState is what was found where a copy says that it was made from: nil for nothing. unknown says why that cannot be told.
type sourceState struct {
	obj     *unstructured.Unstructured
	unknown string
}

// evidence is what is known about a rule and the objects of one cluster, for copies in another. That the rule made the
// copy in question is for the caller to say.
func (q *inquiry) evidence(r *ruleInForce, from, to *reached) syncrules.Evidence {
	said, why := q.relate(r, from, to)
	out := syncrules.Evidence{Rule: r.api.Name, Cluster: from.name, Relation: verdict.Relation(said), Why: why}
	if to.local && q.refusesRule(r) != nil {
		out.Relation = syncrules.Refused
	}
	if r.compiled != nil {
		out.Deletion, out.RuleDeletion = r.compiled.Deletion(), r.compiled.RuleDeletion()
		if !q.asIf {
			out.Observes = r.compiled.Manner().ObservesText(r.api.Name)
		}
	}
	return out
}

// offers says where copies of an object of one cluster would be in another. problems are those of rules that
// cannot say where.
func (q *inquiry) offers(from, to *reached, obj *unstructured.Unstructured) (out map[syncrules.Place]*offer, problems []error) {
	why, held := syncrules.Obstacle(obj)
	if why != "" && !held {
		return nil, nil
	}
	out = map[syncrules.Place]*offer{}
	for _, r := range q.rules {
		if r.compiled == nil || r.compiled.Kind() != obj.GroupVersionKind() || !r.compiled.Match(obj) {
			continue
		}
		evidence := q.evidence(r, from, to)
		if evidence.Relation == syncrules.Excludes {
			continue
		}
		if why := r.excess(from, to); why != "" {
			problems = append(problems, load.TooManyError(why))
			continue
		}
		at, err := q.targets(r.compiled, obj, from, to)
		if err != nil {
			problems = append(problems, fmt.Errorf("rule %s: %w", r.api.Name, err))
			continue
		}
		for _, at := range at {
			if out[at] == nil {
				out[at] = &offer{from: from, obj: obj, held: why, into: at.Namespace}
			}
			out[at].add(r, evidence)
		}
	}
	return out, problems
}

// add adds a rule that selects it.
func (o *offer) add(r *ruleInForce, evidence syncrules.Evidence) {
	o.names = append(o.names, r.api.Name)
	switch asks := evidence.Relation == syncrules.Asks; {
	case asks && evidence.Observes == "":
		o.rules = append(o.rules, r.compiled)
		return
	case asks:
		o.looks = append(o.looks, r.compiled)
	}
	o.stops = append(o.stops, evidence)
}

// claim is what an offer means for the decision about what is there.
func (q *inquiry) claim(o *offer, to *reached, local *unstructured.Unstructured) syncrules.Claim {
	if q.asIf {
		o = o.asIf()
	}
	var sum syncrules.Summary
	if o.held != "" {
		sum.Hold(o.held)
	}
	for _, e := range o.stops {
		// A rule that did not make the copy is in nobody's way. Where none copies, it is told why.
		e.Made = len(o.rules) == 0 || syncrules.Makes(e.Rule, o.from.id, local)
		sum.Weigh(e)
	}
	if local != nil && syncrules.Owner(local) == o.from.id {
		q.hearMakers(&sum, local, sourceState{obj: o.obj}, o.from, to, o.names)
	}
	c, _ := sum.Conclude(syncrules.Claim{Origin: o.from.id}, len(o.rules) > 0)
	if c.Standing != syncrules.Offered {
		return c
	}
	desired, err := q.render(o, to)
	if err != nil {
		c.Standing = syncrules.Held
		if c.Reason = safeError(err, o.obj); errors.Is(err, consent.ErrNeeded) {
			c.Reason += "; whether the chart values say so cannot be read from here, --allow tells"
		}
		return c
	}
	return syncrules.Claim{Origin: o.from.id, Standing: syncrules.Offered, Desired: desired, Adopters: syncrules.Adopters(o.rules)}
}

// render makes the copy, if the chart values allow it.
func (q *inquiry) render(o *offer, to *reached) (*unstructured.Unstructured, error) {
	in := q.input(o.from, to)
	in.Into = o.into
	place, err := o.rules[0].Target(o.obj, in)
	if err == nil {
		err = q.consent.RefuseSource(o.obj, place.GroupKind())
	}
	if err != nil {
		return nil, err
	}
	desired, err := syncrules.Render(o.rules, o.obj, in)
	if err != nil {
		return nil, err
	}
	return desired, q.consent.Refuse(desired)
}

// ownerClaim is the part of the owner of a copy of which no offer for the copy's place is known yet.
func (q *inquiry) ownerClaim(ctx context.Context, copied *unstructured.Unstructured, owner, to *reached) syncrules.Claim {
	if owner.api == nil {
		return q.claimFrom(copied, sourceState{unknown: "cluster " + owner.name + " cannot be asked: " + owner.why}, owner, to)
	}
	obj, err := owner.api.Get(ctx, syncrules.Source(copied))
	if err != nil {
		return q.claimFrom(copied, sourceState{unknown: "its source in cluster " + owner.name + " cannot be read: " + clusters.Reason(err)}, owner, to)
	}
	return q.claimFrom(copied, sourceState{obj: obj}, owner, to)
}

// claimFrom is the part of the owner of a copy by what was found where it comes from: a source that is gone, not selected
// any more, not known, or as it should be.
func (q *inquiry) claimFrom(copied *unstructured.Unstructured, from sourceState, owner, to *reached) syncrules.Claim {
	if from.obj != nil && from.unknown == "" {
		offers, _ := q.offers(owner, to, from.obj)
		if o := offers[syncrules.PlaceOf(copied)]; o != nil {
			return q.claim(o, to, copied)
		}
	}
	var sum syncrules.Summary
	q.hearMakers(&sum, copied, from, owner, to, nil)
	c, heard := sum.Conclude(syncrules.Claim{Origin: owner.id}, false)
	if !heard { // no rule made it: it is not for rules to say
		c.Standing, c.Policy, c.Reason = syncrules.Unknown, v1alpha1.DeletionOrphan, from.unknown
	}
	return c
}

// hearMakers hears the rules that made a copy and, but for those named, do not offer it.
func (q *inquiry) hearMakers(sum *syncrules.Summary, copied *unstructured.Unstructured, from sourceState, owner, to *reached, but []string) {
	made, forms := syncrules.MadeBy(copied), syncrules.Selections(copied)
	for _, name := range made {
		r := q.rule(name)
		switch {
		case slices.Contains(but, name):
			continue
		case r == nil:
			sum.Weigh(syncrules.RuleGone(name, syncrules.RuleDeletion(copied)))
			continue
		}
		e := q.evidence(r, owner, to)
		e.Made, e.Counted, e.Complete = true, true, true // the counting is the agent's
		if e.Relation == syncrules.Asks {
			e.Found, e.Why = q.found(r, copied, from, owner, to)
			e.Selected = syncrules.SelectedBy(made, forms, name, r.compiled.Selection())
		}
		sum.Weigh(e)
	}
}

// found says what a rule finds where a copy that it made comes from, and why that is not known, or not for this copy.
func (q *inquiry) found(r *ruleInForce, copied *unstructured.Unstructured, from sourceState, owner, to *reached) (syncrules.Found, string) {
	if from.unknown != "" {
		return syncrules.FoundUnknown, from.unknown
	}
	if from.obj == nil || r.compiled.Kind() != from.obj.GroupVersionKind() || !r.compiled.Match(from.obj) {
		return syncrules.FoundLacking, ""
	}
	if why, held := syncrules.Obstacle(from.obj); why != "" && !held {
		return syncrules.FoundLacking, ""
	}
	in := q.input(owner, to)
	in.Into = copied.GetNamespace()
	at, err := r.compiled.Target(from.obj, in)
	switch {
	case err != nil:
		return syncrules.FoundFaulty, ""
	case at != syncrules.PlaceOf(copied):
		return syncrules.FoundElsewhere, ""
	}
	return r.foundIn(at.Namespace, to)
}
