// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/cli"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/clusters"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/rules/explain/answer"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/rules/explain/ref"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/rules/explain/stand"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/rules/explain/verdict"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/syncrules"
	"github.com/roster-mesh/roster/syncrules/where"
)

// ruleReport is what there is to say of a rule before any object is looked at.
func (q *inquiry) ruleReport(r *ruleInForce) *answer.Rule {
	out := &answer.Rule{Name: r.api.Name, File: r.file, Generation: r.api.Generation, Kind: r.api.Spec.GVK.Schema().GroupKind().String()}
	if r.err != nil {
		out.Error = cli.OneLine(r.err.Error())
	}
	if r.file == "" {
		ready := clusters.ReadinessOf(r.api)
		out.Ready, out.Orphans, out.LastErrors = &ready, clusters.OrphansOf(r.api), r.api.Status.LastErrors
	}
	return out
}

// explainRule explains one rule: where it goes, where it comes from, and how its copies here stand.
func (q *inquiry) explainRule(ctx context.Context, name string, r *answer.Report) error {
	rule := q.rule(name)
	if rule == nil {
		return q.local().api.Errorf("no rule %q; `agentctl rules list` shows what there is", name)
	}
	out := q.ruleReport(rule)
	r.Rules = append(r.Rules, out)
	if rule.compiled == nil {
		return nil
	}
	for _, c := range q.clusters {
		out.Targets = append(out.Targets, q.target(rule, c))
	}
	found := places{}
	for _, c := range q.clusters {
		out.Sources = append(out.Sources, q.source(ctx, rule, c, found, out, r))
	}
	copies, err := q.copiesOf(ctx, rule)
	if err != nil {
		r.Unknown = append(r.Unknown, answer.Unknown{Cluster: q.local().title(), Reason: "the copies here cannot be read: " + clusters.Reason(err)})
		return nil
	}
	q.ruleCopies(ctx, rule, found, copies, r)
	return nil
}

// target says whether copies of the rule are wanted in a cluster, whatever they are made of.
func (q *inquiry) target(rule *ruleInForce, to *reached) answer.Cluster {
	out := answer.Cluster{Cluster: to.title(), Verdict: verdict.Yes}
	switch answer, v := rule.compiled.ExplainTargets(to.cluster); {
	case answer == where.No:
		out.Verdict, out.Reason = verdict.No, v.String()
	case answer == where.Unknown:
		out.Verdict, out.Reason = verdict.Held, v.String()
	case to.local || rule.file != "":
	case to.rulesWhy != "":
		out.Verdict, out.Reason = verdict.Unknown, "whether the rule is there is not known: "+to.rulesWhy
	case !to.rules[rule.api.Name]:
		out.Verdict, out.Reason = verdict.No, "the rule is not there"
	}
	return out
}

// places collects offers by where their copies would be.
type places map[syncrules.Place][]*offer

// source looks at one cluster as a source of a rule, and collects what it offers to the local one.
func (q *inquiry) source(ctx context.Context, rule *ruleInForce, from *reached, found places, out *answer.Rule, r *answer.Report) answer.Cluster {
	to := q.local()
	v := answer.Cluster{Cluster: from.title()}
	v.Verdict, v.Reason = q.relate(rule, from, to)
	if from.local {
		v.Verdict, v.Reason = q.relateOutward(rule, from)
	}
	if v.Verdict == verdict.No {
		return v
	}
	if from.api == nil {
		v.Verdict, v.Reason = verdict.Unknown, from.why
	}
	var objects []*unstructured.Unstructured
	if from.api != nil {
		var whole bool
		var err error
		if objects, whole, err = q.sourceObjects(ctx, rule, from); err != nil {
			v.Verdict, v.Reason = verdict.Unknown, fmt.Sprintf("%s cannot be listed: %s", out.Kind, clusters.Reason(err))
		} else if !whole {
			r.Notes = append(r.Notes, fmt.Sprintf("cluster %s: only the first %d objects of a scope were looked at", from.name, clusters.MaxListed))
		}
	}
	if v.Verdict == verdict.Unknown {
		r.Unknown = append(r.Unknown, answer.Unknown{Cluster: from.title(), Reason: v.Reason})
		return v
	}
	selected := 0
	for _, obj := range objects {
		if why, held := syncrules.Obstacle(obj); !rule.compiled.Match(obj) || why != "" && !held {
			continue
		}
		selected++
		switch {
		case from.local:
			r.Counts[stand.Offered]++
		case rule.excess(from, to) != "":
			r.Counts[stand.Blocked]++ // all alike, as the verdict says
		default:
			q.collect(rule, from, obj, found, r)
		}
	}
	v.Selected = &selected
	if selected == 0 {
		out.Objects = append(out.Objects, nearest(rule, from, objects)...)
	}
	return v
}

// relateOutward says whether the local cluster is a source of the rule for any other cluster.
func (q *inquiry) relateOutward(rule *ruleInForce, from *reached) (said, why string) {
	said, why = verdict.No, "there is no other cluster"
	for _, to := range q.clusters[1:] {
		if said, why = q.relate(rule, from, to); said != verdict.No {
			break
		}
	}
	return said, why
}

func (q *inquiry) sourceObjects(ctx context.Context, rule *ruleInForce, from *reached) (out []*unstructured.Unstructured, whole bool, err error) {
	whole = true
	for _, scope := range rule.compiled.Scopes() {
		// Without the selectors: what is not selected is what people ask about.
		objects, all, err := from.api.ListOnce(ctx, rule.compiled.Kind(), syncrules.Scope{Namespace: scope.Namespace, FieldSelector: scope.FieldSelector})
		if err != nil {
			return nil, false, err
		}
		out, whole = append(out, objects...), whole && all
	}
	return out, whole, nil
}

// collect adds what an object is offered as, if the rule is among those that offer it.
func (q *inquiry) collect(rule *ruleInForce, from *reached, obj *unstructured.Unstructured, found places, r *answer.Report) {
	offers, problems := q.offers(from, q.local(), obj)
	for at, o := range offers {
		if slices.Contains(o.names, rule.api.Name) {
			found[at] = append(found[at], o)
		}
	}
	problemsOf(r, q.local(), origin{from, obj}, problems)
}

// mostNearest is how many objects are explained of a cluster where a rule selects none.
const mostNearest = 3

// nearest are the objects that come closest to being selected, by the number of fields that hold.
func nearest(rule *ruleInForce, from *reached, objects []*unstructured.Unstructured) []answer.Selected {
	type scored struct {
		answer.Selected
		score int
	}
	var all []scored
	for _, obj := range objects {
		if why, held := syncrules.Obstacle(obj); why != "" && !held {
			continue
		}
		e := rule.compiled.Explain(obj)
		best := 0
		for _, c := range e.Clauses {
			for _, entry := range c.Entries {
				met := 0
				for _, f := range entry.Fields {
					if f.Matched {
						met++
					}
				}
				best = max(best, met)
			}
		}
		all = append(all, scored{answer.Selected{Cluster: from.title(), Object: ref.Of(syncrules.PlaceOf(obj)), Explanation: e}, best})
	}
	slices.SortStableFunc(all, func(a, b scored) int { return cmp.Compare(b.score, a.score) })
	var out []answer.Selected
	for _, s := range all[:min(len(all), mostNearest)] {
		out = append(out, s.Selected)
	}
	return out
}

// copiesOf are the copies here that carry the rule's mark, and all others of the kinds that it makes.
func (q *inquiry) copiesOf(ctx context.Context, rule *ruleInForce) (map[syncrules.Place]*unstructured.Unstructured, error) {
	out := map[syncrules.Place]*unstructured.Unstructured{}
	for _, scope := range rule.compiled.TargetScopes() {
		objects, _, err := q.local().api.List(ctx, scope.GVK, syncrules.Scope{Namespace: scope.Namespace, LabelSelector: v1alpha1.LabelOwnerClusterID})
		if err != nil {
			return nil, err
		}
		for _, obj := range objects {
			out[syncrules.PlaceOf(obj)] = obj
		}
	}
	return out, nil
}

// ruleCopies decides about every place that the rule has a part in. Those that are in sync are counted; of the
// others the first are shown, with what is there if that is not a copy.
func (q *inquiry) ruleCopies(ctx context.Context, rule *ruleInForce, found places, copies map[syncrules.Place]*unstructured.Unstructured, r *answer.Report) {
	var at []syncrules.Place
	for place := range found {
		at = append(at, place)
	}
	for place, obj := range copies {
		if _, offered := found[place]; !offered && slices.Contains(syncrules.MadeBy(obj), rule.api.Name) {
			at = append(at, place)
		}
	}
	slices.SortFunc(at, func(a, b syncrules.Place) int { return strings.Compare(ref.Of(a).String(), ref.Of(b).String()) })
	shown, left := 0, 0
	for _, place := range at {
		offers, local := found[place], copies[place]
		if shown >= q.limit && (local == nil || len(offers) == 0) {
			left++ // each would take a request
			continue
		}
		if local == nil {
			var err error
			if local, err = q.local().api.Get(ctx, place); err != nil {
				r.Counts[stand.Unknown]++
				r.Copies = append(r.Copies, unreadable(q.local(), place, err))
				continue
			}
		}
		c := q.weigh(ctx, q.local(), place, local, offers, q.dryRun && shown < q.limit)
		r.Counts[c.State]++
		if c.State == stand.InSync && c.Diff == "" || shown >= q.limit {
			continue
		}
		shown++
		r.Copies = append(r.Copies, c)
	}
	if left > 0 {
		r.Notes = append(r.Notes, fmt.Sprintf("%d more places were not looked at; --limit raises how many are", left))
	}
}

func unreadable(c *reached, at syncrules.Place, err error) *answer.Copy {
	return &answer.Copy{
		Cluster: c.name, ClusterID: c.id, Object: ref.Of(at), Rules: []string{}, State: stand.Unknown,
		Reason: "what is there cannot be read: " + clusters.Reason(err),
	}
}
