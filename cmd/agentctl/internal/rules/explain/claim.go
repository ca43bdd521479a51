// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"context"
	"errors"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/clusters"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/syncrules"
)

// offer is what one cluster has for one place in another.
type offer struct {
	from  *reached
	obj   *unstructured.Unstructured
	rules []*syncrules.Rule // that copy it, by name
	names []string          // of all rules that select it
	held  string            // why copies of it stay as they are, as it says itself
	stops []stop            // rules that select it and do not copy now
}

type stop struct {
	rule string
	saying
}

// saying is what a rule says that does not copy now.
type saying struct{ verdict, why string }

func (s saying) tell(sum *syncrules.Summary) {
	standing := syncrules.Held
	if s.verdict == verdictUnknown {
		standing = syncrules.Unknown
	}
	sum.Hold(standing, s.why)
}

// offers says where copies of an object of one cluster would be in another. problems are those of rules that
// cannot say where.
func (q *inquiry) offers(from, to *reached, obj *unstructured.Unstructured) (out map[syncrules.Place]*offer, problems []string) {
	why, held := syncrules.Obstacle(obj)
	if why != "" && !held {
		return nil, nil
	}
	out = map[syncrules.Place]*offer{}
	for _, r := range q.rules {
		if r.compiled == nil || r.compiled.Kind() != obj.GroupVersionKind() || !r.compiled.Match(obj) {
			continue
		}
		verdict, because := q.relate(r, from, to)
		if verdict == verdictNo {
			continue
		}
		at, err := r.compiled.Target(obj, q.input(from, to))
		if err != nil {
			problems = append(problems, "rule "+r.api.Name+": "+safeError(err, obj))
			continue
		}
		q.hide(r.compiled, obj, at, q.input(from, to))
		o := out[at]
		if o == nil {
			o = &offer{from: from, obj: obj, held: why}
			out[at] = o
		}
		o.names = append(o.names, r.api.Name)
		if verdict == verdictYes {
			o.rules = append(o.rules, r.compiled)
		} else {
			o.stops = append(o.stops, stop{r.api.Name, saying{verdict, because}})
		}
	}
	return out, problems
}

// hide notes the names that a rule makes from what a Secret holds.
func (q *inquiry) hide(r *syncrules.Rule, obj *unstructured.Unstructured, at syncrules.Place, in syncrules.Input) {
	if !r.PlaceTells(obj, in, at) {
		return
	}
	for made, own := range map[string]string{at.Name: obj.GetName(), at.Namespace: obj.GetNamespace()} {
		if made != own && !slices.Contains(q.telling, made) {
			q.telling = append(q.telling, made)
		}
	}
}

// claim is what an offer means for the decision about what is there.
func (q *inquiry) claim(o *offer, to *reached, local *unstructured.Unstructured) syncrules.Claim {
	var sum syncrules.Summary
	if o.held != "" {
		sum.Hold(syncrules.Held, o.held)
	}
	for _, s := range o.stops {
		// A rule that did not make the copy is in nobody's way. Where none copies, it is told why.
		if len(o.rules) == 0 || syncrules.Makes(s.rule, o.from.id, local) {
			s.tell(&sum)
		}
	}
	if local != nil && syncrules.Owner(local) == o.from.id {
		q.hearMakers(&sum, local, o.obj, o.from, to, o.names)
	}
	c, _ := sum.Conclude(syncrules.Claim{Origin: o.from.id}, len(o.rules) > 0)
	if c.Standing != syncrules.Offered {
		return c
	}
	desired, err := syncrules.Render(o.rules, o.obj, q.input(o.from, to))
	if err == nil {
		err = q.consent.Refuse(desired)
	}
	if err != nil {
		c.Standing = syncrules.Held
		if c.Reason = safeError(err, o.obj); errors.Is(err, syncrules.ErrConsent) {
			c.Reason += "; whether the chart values say so cannot be read from here, --allow tells"
		}
		return c
	}
	return syncrules.Claim{Origin: o.from.id, Standing: syncrules.Offered, Desired: desired}
}

// ownerClaim is the part of the owner of a copy when it offers nothing for the copy's place.
func (q *inquiry) ownerClaim(ctx context.Context, copied *unstructured.Unstructured, owner, to *reached) syncrules.Claim {
	c := syncrules.Claim{Origin: owner.id, Standing: syncrules.Unknown, Fate: v1alpha1.DeletionOrphan}
	if owner.api == nil {
		c.Reason = "cluster " + owner.name + " cannot be asked: " + owner.why
		return c
	}
	source, err := owner.api.Get(ctx, syncrules.Source(copied))
	if err != nil {
		c.Reason = "its source in cluster " + owner.name + " cannot be read: " + clusters.Reason(err)
		return c
	}
	return q.lostClaim(copied, source, owner, to)
}

// lostClaim is the part of the owner of a copy whose source is gone or not selected any more.
func (q *inquiry) lostClaim(copied, source *unstructured.Unstructured, owner, to *reached) syncrules.Claim {
	var sum syncrules.Summary
	q.hearMakers(&sum, copied, source, owner, to, nil)
	c, heard := sum.Conclude(syncrules.Claim{Origin: owner.id}, false)
	if !heard {
		c.Standing = syncrules.Unknown // no rule made it: it is not for rules to say
	}
	return c
}

// hearMakers asks the rules that made a copy and, but for those named, do not select its source.
func (q *inquiry) hearMakers(sum *syncrules.Summary, copied, source *unstructured.Unstructured, owner, to *reached, but []string) {
	made, forms := syncrules.MadeBy(copied), syncrules.Selections(copied)
	for _, name := range made {
		r := q.rule(name)
		switch {
		case slices.Contains(but, name):
			continue
		case r == nil:
			sum.Release(syncrules.RuleDeletion(copied), "rule "+name+" is gone")
			continue
		}
		verdict, why := q.relate(r, owner, to)
		switch verdict {
		case verdictHeld, verdictUnknown:
			saying{verdict, why}.tell(sum)
		case verdictNo:
			sum.Release(r.compiled.RuleDeletion(), why)
		case verdictYes:
			// As with an agent: unless the rule had selected the source in its present form, it is put down to
			// the edit.
			if !syncrules.SelectedBy(made, forms, name, r.compiled.Selection()) {
				sum.Release(r.compiled.RuleDeletion(), "rule "+name+" was edited and does not select its source any more")
				continue
			}
			why = "rule " + name + " does not select its source in cluster " + owner.name + " any more"
			if source == nil {
				why = "its source is gone in cluster " + owner.name
			}
			sum.Lose(r.compiled.Deletion(), why)
		}
	}
}
