// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/clusters"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/rules/explain/answer"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/rules/explain/load"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/rules/explain/ref"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/rules/explain/stand"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/rules/explain/verdict"
	"github.com/roster-mesh/roster/syncrules"
	"github.com/roster-mesh/roster/syncrules/fanout"
)

// errNamespaces is returned when it is not known which namespaces a cluster has.
var errNamespaces = errors.New("the namespaces are not known")

// namespaces are those of a cluster, as an agent there knows them, read once.
func (c *reached) namespaces() (map[string]*fanout.Namespace, error) {
	if c.api == nil {
		return nil, fmt.Errorf("%w: cluster %s: %s", errNamespaces, c.name, c.why)
	}
	list, whole, err := c.listNamespaces()
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: cluster %s: %s", errNamespaces, c.name, clusters.Reason(err))
	case !whole:
		return nil, fmt.Errorf("%w: cluster %s has more than are read", errNamespaces, c.name)
	}
	out := make(map[string]*fanout.Namespace, len(list))
	for _, obj := range list {
		out[obj.GetName()] = &fanout.Namespace{Labels: obj.GetLabels(), Ends: obj.GetDeletionTimestamp() != nil}
	}
	return out, nil
}

// targets are the places of the copies that a rule makes of an object in another cluster: one, or one in each namespace that
// it selects there.
func (q *inquiry) targets(rule *syncrules.Rule, obj *unstructured.Unstructured, from, to *reached) ([]syncrules.Place, error) {
	in := q.input(from, to)
	if rule.FanOut() == nil {
		at, err := rule.Target(obj, in)
		return []syncrules.Place{at}, err
	}
	all, err := to.namespaces()
	if err == nil {
		err = rule.CheckTargetNamespaces(func(gvk schema.GroupVersionKind) bool {
			namespaced, err := in.Namespaced(gvk)
			return err == nil && !namespaced
		})
	}
	if err != nil {
		return nil, err
	}
	var out []syncrules.Place
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if rule.FanOut().Weigh(all[name]) != fanout.Yes {
			continue
		}
		in.Into = name
		at, err := rule.Target(obj, in)
		if err != nil {
			return nil, err
		}
		out = append(out, at)
	}
	return out, nil
}

// foundIn says what a rule finds for a copy in a namespace whose source is there and selected, and why.
func (r *ruleInForce) foundIn(namespace string, to *reached) (syncrules.Found, string) {
	selector := r.compiled.FanOut()
	if selector == nil {
		return syncrules.FoundPresent, ""
	}
	all, err := to.namespaces()
	if err != nil {
		return syncrules.FoundUnknown, err.Error()
	}
	why := selector.Explain(r.api.Name, namespace, all[namespace])
	switch selector.Weigh(all[namespace]) {
	case fanout.Yes:
		return syncrules.FoundPresent, ""
	case fanout.No:
		return syncrules.FoundElsewhere, why
	case fanout.Unknown:
	}
	return syncrules.FoundUnknown, why
}

// spread finds the objects of other clusters that rules with targetNamespaces would copy to a place here where no copy is, if
// they select its namespace, and says of those that do not why. Those in known are explained already.
func (q *inquiry) spread(ctx context.Context, at syncrules.Place, known origins, r *answer.Report) (out origins) {
	var offers []*offer
	for _, rule := range q.rules {
		if rule.compiled == nil || rule.compiled.FanOut() == nil || !slices.Contains(rule.compiled.TargetKinds(), at.GroupVersionKind) {
			continue
		}
		for _, from := range q.clusters[1:] {
			for _, obj := range q.sourcesOf(ctx, rule, from, at, r) {
				if f, why := rule.foundIn(at.Namespace, q.local()); f != syncrules.FoundPresent {
					state := map[bool]string{true: stand.Unknown, false: stand.None}[f == syncrules.FoundUnknown]
					r.Counts[state]++
					r.Copies = append(r.Copies, &answer.Copy{
						Cluster: q.local().name, ClusterID: q.local().id, Object: ref.Of(at), Rules: []string{rule.api.Name}, State: state, Reason: why,
					})
				}
				if slices.ContainsFunc(slices.Concat(known, out), func(o origin) bool { return o.from == from && syncrules.PlaceOf(o.obj) == syncrules.PlaceOf(obj) }) {
					continue
				}
				out = append(out, origin{from, obj})
				all, _ := q.offers(from, q.local(), obj)
				if o := all[at]; o != nil && !slices.ContainsFunc(offers, func(have *offer) bool { return have.from == from }) {
					offers = append(offers, o)
				}
			}
		}
	}
	if len(offers) > 0 {
		c := q.copyAt(ctx, q.local(), at, offers)
		r.Counts[c.State]++
		r.Copies = append(r.Copies, c)
	}
	return out
}

// sourcesOf are the objects of a cluster that a rule would copy to a place, if it selects the namespace. What is not read of
// them is not known.
func (q *inquiry) sourcesOf(ctx context.Context, rule *ruleInForce, from *reached, at syncrules.Place, r *answer.Report) (out []*unstructured.Unstructured) {
	if from.api == nil {
		return nil // it is told of already
	}
	in := q.input(from, q.local())
	in.Into = at.Namespace
	for _, obj := range q.listed(ctx, rule, from, r) {
		if why, held := syncrules.Obstacle(obj); !rule.compiled.Match(obj) || why != "" && !held {
			continue
		}
		if place, err := rule.compiled.Target(obj, in); err == nil && place == at {
			out = append(out, obj)
		}
	}
	return out
}

// listed are the objects of a cluster in the scopes of a rule. That some are not known is reported.
func (q *inquiry) listed(ctx context.Context, rule *ruleInForce, from *reached, r *answer.Report) []*unstructured.Unstructured {
	objects, whole, err := q.sourceObjects(ctx, rule, from)
	if err != nil || !whole {
		why := fmt.Sprintf("of the objects of rule %s only the first %d of a scope were looked at", rule.api.Name, clusters.MaxListed)
		if err != nil {
			why = fmt.Sprintf("%s cannot be listed: %s", rule.compiled.Kind().Kind, clusters.Reason(err))
		}
		r.Unknown = append(r.Unknown, answer.Unknown{Cluster: from.title(), Reason: why})
	}
	return objects
}

// measure counts what rules of files with targetNamespaces select in the clusters that they copy from: of those that are in
// force, agents say what is too much. given is an object of a file.
func (q *inquiry) measure(ctx context.Context, given origin, r *answer.Report) {
	for _, rule := range q.rules {
		if rule.file != "" {
			rule.load = load.New(rule.compiled)
		}
		for _, from := range q.clusters {
			asks := func(to *reached) bool {
				said, _ := q.relate(rule, from, to)
				return to != from && said != verdict.No
			}
			if rule.load == nil || from.api == nil || !slices.ContainsFunc(q.clusters, asks) {
				continue
			}
			objects := q.listed(ctx, rule, from, r)
			if from == given.from {
				before := func(obj *unstructured.Unstructured) bool {
					return syncrules.PlaceOf(obj) == syncrules.PlaceOf(given.obj)
				}
				objects = append(slices.DeleteFunc(slices.Clone(objects), before), given.obj)
			}
			for _, obj := range objects {
				rule.load.Add(from.id, obj)
			}
		}
	}
}

// excess is why the agent of a cluster would make no copy of what another one has, by what was counted.
func (r *ruleInForce) excess(from, to *reached) string {
	return r.load.Excess(from.id, to.id, to.namespaces)
}
