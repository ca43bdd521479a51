// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/cli"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/clusters"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/rules/explain/answer"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/rules/explain/load"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/rules/explain/ref"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/rules/explain/stand"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/rules/explain/verdict"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/rules/redact"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/syncrules"
	"github.com/roster-mesh/roster/syncrules/consent"
	"github.com/roster-mesh/roster/syncrules/skew"
	"github.com/roster-mesh/roster/syncrules/where"
)

// ruleInForce is a rule as it is in the local cluster, or as a file would make it.
type ruleInForce struct {
	api      *v1alpha1.ResourceSyncRule
	compiled *syncrules.Rule // nil: err says why
	err      error
	file     string // "" for one that is in force
	load     *load.Count
}

// inquiry is what an explanation knows: the same facts that an agent decides by, read once.
type inquiry struct {
	clusters []*reached     // the local one first
	rules    []*ruleInForce // by name
	consent  consent.Policy
	limit    int
	dryRun   bool
	asIf     bool // rules that only look are asked as if they wrote
}

func (q *inquiry) local() *reached { return q.clusters[0] }

func (q *inquiry) byID(id string) *reached {
	if i := slices.IndexFunc(q.clusters, func(c *reached) bool { return c.id == id }); i >= 0 {
		return q.clusters[i]
	}
	return nil
}

// title is what people call a cluster.
func (q *inquiry) title(id string) string {
	if c := q.byID(id); c != nil {
		return c.title()
	}
	return id + " (which this cluster does not know)"
}

func (q *inquiry) rule(name string) *ruleInForce {
	if i := slices.IndexFunc(q.rules, func(r *ruleInForce) bool { return r.api.Name == name }); i >= 0 {
		return q.rules[i]
	}
	return nil
}

// version is the one in which objects of a kind are read, and the rule that it is of: the oldest one about it, as with an agent. A rule of
// a file that is not in force is younger than all others.
func (q *inquiry) version(gk schema.GroupKind) (version, rule string) {
	var oldest *ruleInForce
	for _, r := range q.rules { // by name
		if r.compiled != nil && r.compiled.Kind().GroupKind() == gk && (oldest == nil || r.older(oldest)) {
			oldest = r
		}
	}
	if oldest == nil {
		return "", ""
	}
	return oldest.compiled.Kind().Version, oldest.api.Name
}

func (r *ruleInForce) older(o *ruleInForce) bool {
	born, other := r.api.CreationTimestamp.Time, o.api.CreationTimestamp.Time
	return !born.IsZero() && (other.IsZero() || born.Before(other))
}

func (q *inquiry) input(from, to *reached) syncrules.Input {
	in := syncrules.Input{Owner: from.id, Cluster: from.cluster, LocalCluster: to.cluster}
	if to.api != nil {
		in.Namespaced = to.api.Namespaced
	}
	return in
}

// relate says whether a rule copies from one cluster to another, whatever it selects there, and why not.
func (q *inquiry) relate(r *ruleInForce, from, to *reached) (said, why string) {
	name := "rule " + r.api.Name
	if err := q.refusesRule(r); to.local && err != nil {
		return verdict.Held, cli.OneLine(syncrules.UnusableText(r.api.Name, err))
	}
	if r.compiled == nil {
		return verdict.Held, cli.OneLine(syncrules.UnusableText(r.api.Name, r.err))
	}
	kind := r.compiled.Kind()
	rel, why := r.compiled.Relate(syncrules.ClusterPair{
		To: to.cluster, From: from.name, Features: from.features, FeaturesKnown: from.featuresWhy == "",
	})
	switch version, older := q.version(kind.GroupKind()); {
	case kind.Version != version:
		return verdict.Held, name + ": " + syncrules.ClashText(kind, older, version)
	case r.compiled.Targets(to.cluster) == where.No:
		return verdict.No, why
	case !to.local && r.file == "" && to.rulesWhy != "":
		return verdict.Unknown, "whether " + name + " is in cluster " + to.name + " is not known: " + to.rulesWhy
	case !to.local && r.file == "" && !to.rules[r.api.Name]:
		return verdict.No, name + " is not in cluster " + to.name
	case rel == syncrules.Unclear && r.compiled.Targets(to.cluster) == where.Unknown:
		return verdict.Held, why
	case rel == syncrules.Unclear:
		return verdict.Unknown, why + ": " + from.featuresWhy
	case rel == syncrules.Excludes:
		return verdict.No, why
	case rel == syncrules.Stopped:
		return verdict.Held, why
	case from.disabled:
		return verdict.Held, "cluster " + from.name + " is disabled here by the annotation " + v1alpha1.AnnotationClusterDisabled
	case to.local && refusesObjects(from) != nil:
		return verdict.Held, cli.OneLine(refusesObjects(from).Error())
	case to.local && r.frozen(from.id) != "":
		return verdict.Held, "the agent here says of cluster " + from.name + ": " + r.frozen(from.id)
	case r.excess(from, to) != "":
		return verdict.Held, r.excess(from, to)
	}
	return verdict.Yes, ""
}

// refusesRule is why this cluster does not let a rule be in force, by what its agent says of fields that it does not know, and
// by the annotations here; the chart value cannot be read.
func (q *inquiry) refusesRule(r *ruleInForce) error {
	if ready := clusters.ReadinessOf(r.api); r.file == "" && ready.Reason == skew.Reason {
		return errors.New(ready.Message)
	}
	if c := q.byID(syncrules.Owner(r.api)); c != nil && !c.local {
		return consent.TermsSeen(c.cluster).RefuseRules(c.name)
	}
	return nil
}

// frozen is why the agent here leaves the copies from a cluster as they are that it watches, by what it says of the rule
// as it is; "" where it does not say so. Of one that is not watched it says no more than that some part is not.
func (r *ruleInForce) frozen(id string) string {
	if r.file != "" || r.api.Status.ObservedGeneration != r.api.Generation {
		return ""
	}
	for _, s := range r.api.Status.Sources {
		if string(s.ClusterID) == id && s.Watching {
			return cli.OneLine(s.Message)
		}
	}
	return ""
}

// weigh decides about one place in one cluster, by the same function as its agent.
// ask says that its API server may be asked what it would make of a write.
func (q *inquiry) weigh(ctx context.Context, to *reached, at syncrules.Place, local *unstructured.Unstructured, offers []*offer, ask bool) *answer.Copy {
	out := &answer.Copy{Cluster: to.name, ClusterID: to.id, Object: ref.Of(at), Rules: []string{}, Action: syncrules.None.String()}
	for _, o := range offers {
		for _, name := range o.names {
			if !slices.Contains(out.Rules, name) {
				out.Rules = append(out.Rules, name)
			}
		}
	}
	q.decide(ctx, out, q.facts(ctx, to, local, offers), to, offers, ask)
	q.look(ctx, out, to, local, offers, ask)
	slices.Sort(out.Rules)
	return out
}

// facts is what an agent would know of one place.
func (q *inquiry) facts(ctx context.Context, to *reached, local *unstructured.Unstructured, offers []*offer) syncrules.Facts {
	facts := syncrules.Facts{Self: to.id, Local: local}
	owner := ""
	if local != nil && syncrules.IsCopy(local) {
		owner = syncrules.Owner(local)
	}
	for _, o := range offers {
		facts.Claims = append(facts.Claims, q.claim(o, to, local))
	}
	slices.SortFunc(facts.Claims, func(a, b syncrules.Claim) int { return cmp.Compare(a.Origin, b.Origin) })
	known := slices.ContainsFunc(facts.Claims, func(c syncrules.Claim) bool { return c.Origin == owner })
	if by := q.byID(owner); owner != "" && !known && by != nil && by != to {
		facts.Claims = append(facts.Claims, q.ownerClaim(ctx, local, by, to))
		slices.SortFunc(facts.Claims, func(a, b syncrules.Claim) int { return cmp.Compare(a.Origin, b.Origin) })
	}
	return facts
}

// decide fills in what becomes of the copy.
func (q *inquiry) decide(ctx context.Context, out *answer.Copy, facts syncrules.Facts, to *reached, offers []*offer, ask bool) {
	if to.api == nil {
		out.Action, out.State, out.Reason = "", stand.Unknown, "what is there is not known: "+to.why
		return
	}
	d := syncrules.Plan(facts)
	out.Action, out.Reason = d.Action.String(), d.Reason
	if d.Owner != "" {
		out.Owner, out.OwnerID = q.title(d.Owner), d.Owner
	}
	for _, id := range d.Rivals {
		out.Rivals = append(out.Rivals, q.title(id))
	}
	out.State = stand.Of(d, facts)
	if held := stand.HeldBack(facts, d); held != nil {
		out.Reason = cmp.Or(out.Reason, held.Reason)
		if out.State = stand.Blocked; held.Standing == syncrules.Unknown {
			out.State = stand.Unknown
		}
	}
	if d.Object == nil || d.Action == syncrules.Delete {
		return
	}
	q.compare(ctx, out, facts.Local, d, to, q.redaction(facts, d, offers), ask)
}

// safeError is an error about an object as one line; what a Secret holds is taken out of it.
func safeError(err error, obj *unstructured.Unstructured) string {
	text := clusters.Reason(err)
	if clusters.IsSecret(obj.GroupVersionKind()) && !errors.Is(err, consent.ErrNeeded) {
		text = redact.Values(text, obj)
	}
	return text
}

// refusesObjects is why this cluster takes nothing from another one, by the annotation here.
func refusesObjects(from *reached) error {
	return consent.TermsOf(consent.AcceptAll, from.cluster).RefuseObjects(from.name)
}
