// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/clusters"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/rules/explain/answer"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/rules/explain/load"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/rules/explain/ref"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/rules/explain/stand"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/rules/explain/verdict"
	"github.com/roster-mesh/roster/syncrules"
)

// explainObject explains one object: where it is, which rules select it, and how its copies stand everywhere.
// given is an object of a file, taken as one of the cluster from; nil for what is there.
func (q *inquiry) explainObject(ctx context.Context, at syncrules.Place, given *unstructured.Unstructured, from *reached, r *answer.Report) error {
	if r.Object == nil {
		r.Object = &answer.Object{}
	}
	r.Object.Object = ref.Of(at)
	here, err := q.local().api.Get(ctx, at)
	if err != nil {
		return q.local().api.Errorf("read %s: %w", r.Object, err)
	}
	source := at
	if given == nil && here != nil && syncrules.IsCopy(here) {
		source = syncrules.Source(here)
	}
	if version, _ := q.version(source.GroupKind()); given == nil && version != "" && version != source.Version {
		source.Version = version // it is judged as rules read it
		if source.GroupKind() == at.GroupKind() {
			at.Version = version
		}
		if here, err = q.local().api.Get(ctx, at); err != nil {
			return q.local().api.Errorf("read %s: %w", r.Object, err)
		}
	}
	objects := q.sources(ctx, at, source, here, given, from, r)
	var more origins
	if given == nil && (here == nil || !syncrules.IsCopy(here)) {
		more = q.spread(ctx, at, objects, r)
	}
	q.ruleVerdicts(source, slices.Concat(objects, more), r)
	q.copies(ctx, at, here, objects, r)
	if len(r.Object.Where) > 0 && len(objects)+len(more) == 0 && here == nil && len(r.Unknown) == 0 {
		return q.local().api.Errorf("%s is in no cluster of the group", r.Object)
	}
	return nil
}

// origins are the objects that copies could be made of, by the cluster that they are in, in the order of clusters.
type origins []origin

type origin struct {
	from *reached
	obj  *unstructured.Unstructured
}

// sources reads the object in every cluster.
func (q *inquiry) sources(ctx context.Context, at, source syncrules.Place, here, given *unstructured.Unstructured, from *reached, r *answer.Report) origins {
	var out origins
	say := func(c *reached, is, text string) {
		r.Object.Where = append(r.Object.Where, answer.Presence{Cluster: c.title(), Is: is, Text: text})
	}
	for _, c := range q.clusters {
		obj, where := here, ref.Of(at)
		switch {
		case c == from:
			obj = given
		case c.api == nil:
			say(c, verdict.Unknown, "not known: "+c.why)
			r.Unknown = append(r.Unknown, answer.Unknown{Cluster: c.title(), Reason: c.why})
			continue
		case !c.local:
			var err error
			where = ref.Of(source)
			if obj, err = c.api.Get(ctx, source); err != nil {
				say(c, verdict.Unknown, "not known: "+clusters.Reason(err))
				r.Unknown = append(r.Unknown, answer.Unknown{Cluster: c.title(), Reason: clusters.Reason(err)})
				continue
			}
		}
		is, text := q.describe(obj)
		if where != r.Object.Object {
			text = where.String() + ": " + text
		}
		if c == from {
			text = "taken from " + r.Object.File + ": " + text
		}
		say(c, is, text)
		if obj != nil && is != "copy" {
			out = append(out, origin{c, obj})
		}
	}
	return out
}

// describe says what an object is to the agents.
func (q *inquiry) describe(obj *unstructured.Unstructured) (is, text string) {
	switch {
	case obj == nil:
		return "absent", "not there"
	case syncrules.IsCopy(obj):
		text = "a copy, owned by " + q.title(syncrules.Owner(obj))
		if made := syncrules.MadeBy(obj); len(made) > 0 {
			text += ", made by rule " + strings.Join(made, ", ")
		}
		if syncrules.Orphaned(obj) {
			text += "; an orphan: nobody maintains it"
		}
		if syncrules.Disabled(obj) {
			text += "; left alone by its annotation"
		}
		return "copy", text
	}
	if why, _ := syncrules.Obstacle(obj); why != "" {
		return "source", "an object of its own, but " + why
	}
	return "source", "an object of its own"
}

// ruleVerdicts says of every rule about the kind whether it selects the object, in each cluster that has it.
func (q *inquiry) ruleVerdicts(source syncrules.Place, objects origins, r *answer.Report) {
	for _, rule := range q.rules {
		if rule.api.Spec.GVK.Schema().GroupKind() != source.GroupKind() {
			continue
		}
		out := q.ruleReport(rule)
		r.Rules = append(r.Rules, out)
		if rule.compiled == nil {
			continue
		}
		if rule.compiled.Kind() != source.GroupVersionKind {
			r.Notes = append(r.Notes, fmt.Sprintf("rule %s is about version %s, and what was read is in %s: it is not judged by that rule",
				rule.api.Name, rule.compiled.Kind().Version, source.Version))
			continue
		}
		for _, o := range objects {
			e := rule.compiled.Explain(o.obj)
			out.Objects = append(out.Objects, answer.Selected{Cluster: o.from.title(), Object: ref.Of(syncrules.PlaceOf(o.obj)), Explanation: e})
			if e.Matched {
				out.Targets = append(out.Targets, q.directions(rule, o.from)...)
			}
		}
	}
	if len(r.Rules) == 0 {
		r.Notes = append(r.Notes, "no rule is about "+source.GroupKind().String())
	}
}

// directions says to which clusters a rule copies what it selects in one.
func (q *inquiry) directions(rule *ruleInForce, from *reached) []answer.Cluster {
	var out []answer.Cluster
	for _, to := range q.clusters {
		if to == from {
			continue
		}
		v := answer.Cluster{Cluster: to.title()}
		v.Verdict, v.Reason = q.relate(rule, from, to)
		if !slices.Contains(out, v) {
			out = append(out, v)
		}
	}
	return out
}

// copies decides about every place that a copy of the object is in, or would be, and about the object here if
// it is a copy itself.
func (q *inquiry) copies(ctx context.Context, at syncrules.Place, here *unstructured.Unstructured, objects origins, r *answer.Report) {
	for _, to := range q.clusters {
		found := places{}
		if to.local && here != nil && syncrules.IsCopy(here) {
			found[at] = nil
		}
		for _, o := range objects {
			if o.from == to {
				continue
			}
			q.offered(o, to, found, r)
		}
		var order []syncrules.Place
		for place := range found {
			order = append(order, place)
		}
		slices.SortFunc(order, func(a, b syncrules.Place) int { return strings.Compare(ref.Of(a).String(), ref.Of(b).String()) })
		most := max(q.limit, len(q.rules)) // more are of one rule, in many namespaces
		for i, place := range order {
			if i >= most && (!to.local || place != at) {
				continue // each would take a request
			}
			c := q.copyAt(ctx, to, place, found[place])
			r.Counts[c.State]++
			r.Copies = append(r.Copies, c)
		}
		if left := len(order) - most; left > 0 {
			r.Notes = append(r.Notes, fmt.Sprintf("cluster %s: %d more places were not looked at; --limit raises how many are", to.title(), left))
		}
	}
}

// offered collects what one object is offered as to one cluster.
func (q *inquiry) offered(o origin, to *reached, found places, r *answer.Report) {
	offers, problems := q.offers(o.from, to, o.obj)
	for place, one := range offers {
		found[place] = append(found[place], one)
	}
	problemsOf(r, to, o, problems)
}

// problemsOf reports what keeps rules from saying where a copy belongs.
func problemsOf(r *answer.Report, to *reached, o origin, problems []error) {
	for _, p := range problems {
		state, reason := stand.Blocked, "where the copy of cluster "+o.from.name+" belongs cannot be determined: "+safeError(p, o.obj)
		if errors.Is(p, errNamespaces) {
			state = stand.Unknown
		}
		if errors.As(p, new(load.TooManyError)) {
			reason = p.Error()
		}
		r.Counts[state]++
		r.Copies = append(r.Copies, &answer.Copy{
			Cluster: to.name, ClusterID: to.id, Object: ref.Of(syncrules.PlaceOf(o.obj)), Rules: []string{}, State: state,
			Reason: reason,
		})
	}
}

func (q *inquiry) copyAt(ctx context.Context, to *reached, at syncrules.Place, offers []*offer) *answer.Copy {
	if to.api == nil {
		return q.weigh(ctx, to, at, nil, offers, false)
	}
	local, err := to.api.Get(ctx, at)
	if err != nil {
		return unreadable(to, at, err)
	}
	return q.weigh(ctx, to, at, local, offers, q.dryRun)
}
