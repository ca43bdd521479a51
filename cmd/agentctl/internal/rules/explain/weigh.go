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
}

// inquiry is what an explanation knows: the same facts that an agent decides by, read once.
type inquiry struct {
	clusters []*reached     // the local one first
	rules    []*ruleInForce // by name
	consent  consent.Policy
	limit    int
	dryRun   bool
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

// version is the one in which objects of a kind are read: that of the oldest rule about it, as with an agent. A rule of
// a file that is not in force is younger than all others.
func (q *inquiry) version(gk schema.GroupKind) string {
	var oldest *ruleInForce
	for _, r := range q.rules { // by name
		if r.compiled != nil && r.compiled.Kind().GroupKind() == gk && (oldest == nil || r.older(oldest)) {
			oldest = r
		}
	}
	if oldest == nil {
		return ""
	}
	return oldest.compiled.Kind().Version
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

// Verdicts on whether a rule copies from one cluster to another.
const (
	verdictYes     = "yes"
	verdictNo      = "no"
	verdictHeld    = "held" // copies stay as they are
	verdictUnknown = "unknown"
)

// relate says whether a rule copies from one cluster to another, whatever it selects there, and why not.
func (q *inquiry) relate(r *ruleInForce, from, to *reached) (verdict, why string) {
	name := "rule " + r.api.Name
	if err := q.refusesRule(r); to.local && err != nil {
		return verdictHeld, cli.OneLine(syncrules.UnusableText(r.api.Name, err))
	}
	if r.compiled == nil {
		return verdictHeld, cli.OneLine(syncrules.UnusableText(r.api.Name, r.err))
	}
	kind := r.compiled.Kind()
	rel, why := r.compiled.Relate(syncrules.ClusterPair{
		To: to.cluster, From: from.name, Features: from.features, FeaturesKnown: from.featuresWhy == "",
	})
	switch version := q.version(kind.GroupKind()); {
	case kind.Version != version:
		return verdictHeld, name + ": " + syncrules.ClashText(kind, version)
	case r.compiled.Targets(to.cluster) == where.No:
		return verdictNo, why
	case !to.local && r.file == "" && to.rulesWhy != "":
		return verdictUnknown, "whether " + name + " is in cluster " + to.name + " is not known: " + to.rulesWhy
	case !to.local && r.file == "" && !to.rules[r.api.Name]:
		return verdictNo, name + " is not in cluster " + to.name
	case rel == syncrules.Unclear && r.compiled.Targets(to.cluster) == where.Unknown:
		return verdictHeld, why
	case rel == syncrules.Unclear:
		return verdictUnknown, why + ": " + from.featuresWhy
	case rel == syncrules.Excludes:
		return verdictNo, why
	case rel == syncrules.Stopped:
		return verdictHeld, why
	case from.disabled:
		return verdictHeld, "cluster " + from.name + " is disabled here by the annotation " + v1alpha1.AnnotationClusterDisabled
	case to.local && refusesObjects(from) != nil:
		return verdictHeld, cli.OneLine(refusesObjects(from).Error())
	case to.local && r.frozen(from.id) != "":
		return verdictHeld, "the agent here says of cluster " + from.name + ": " + r.frozen(from.id)
	}
	return verdictYes, ""
}

// refusesRule is why this cluster does not let a rule be in force, by what its agent says of fields that it does not know, and
// by the annotations here; the chart value cannot be read.
func (q *inquiry) refusesRule(r *ruleInForce) error {
	if ready := clusters.ReadinessOf(r.api); r.file == "" && ready.Reason == skew.Reason {
		return errors.New(ready.Message)
	}
	if c := q.byID(syncrules.Owner(r.api)); c != nil && !c.local {
		return consent.TermsOf(consent.AcceptAll, c.cluster).RefuseRules(c.name)
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
func (q *inquiry) weigh(ctx context.Context, to *reached, at syncrules.Place, local *unstructured.Unstructured, offers []*offer, ask bool) *copyReport {
	facts := syncrules.Facts{Self: to.id, Local: local}
	out := &copyReport{Cluster: to.name, ClusterID: to.id, Object: refOf(at), Rules: []string{}, Action: syncrules.None.String()}
	owner := ""
	if local != nil && syncrules.IsCopy(local) {
		owner = syncrules.Owner(local)
	}
	for _, o := range offers {
		facts.Claims = append(facts.Claims, q.claim(o, to, local))
		for _, name := range o.names {
			if !slices.Contains(out.Rules, name) {
				out.Rules = append(out.Rules, name)
			}
		}
	}
	slices.SortFunc(facts.Claims, func(a, b syncrules.Claim) int { return cmp.Compare(a.Origin, b.Origin) })
	known := slices.ContainsFunc(facts.Claims, func(c syncrules.Claim) bool { return c.Origin == owner })
	if by := q.byID(owner); owner != "" && !known && by != nil && by != to {
		facts.Claims = append(facts.Claims, q.ownerClaim(ctx, local, by, to))
		slices.SortFunc(facts.Claims, func(a, b syncrules.Claim) int { return cmp.Compare(a.Origin, b.Origin) })
	}
	q.decide(ctx, out, facts, to, offers, ask)
	slices.Sort(out.Rules)
	return out
}

// decide fills in what becomes of the copy.
func (q *inquiry) decide(ctx context.Context, out *copyReport, facts syncrules.Facts, to *reached, offers []*offer, ask bool) {
	if to.api == nil {
		out.Action, out.State, out.Reason = "", stateUnknown, "what is there is not known: "+to.why
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
	out.State = stateOf(d, facts)
	if held := heldBack(facts, d); held != nil {
		out.Reason = cmp.Or(out.Reason, held.Reason)
		if out.State = stateBlocked; held.Standing == syncrules.Unknown {
			out.State = stateUnknown
		}
	}
	if d.Object == nil || d.Action == syncrules.Delete {
		return
	}
	q.compare(ctx, out, facts.Local, d, to, q.redaction(facts, d, offers), ask)
}

// heldBack is the claim that would have made a copy where there is none, but for what it says.
func heldBack(facts syncrules.Facts, d syncrules.Decision) *syncrules.Claim {
	if facts.Local != nil || d.Action != syncrules.None {
		return nil
	}
	for i := range facts.Claims {
		if c := &facts.Claims[i]; c.Standing == syncrules.Held || c.Standing == syncrules.Unknown {
			return c
		}
	}
	return nil
}

// Where a copy stands.
const (
	stateInSync  = "inSync"
	statePending = "pending" // a write is needed, and would be taken
	stateGone    = "gone"    // its source is: the copy would be deleted or orphaned
	stateBlocked = "blocked" // something is in the way
	stateUnknown = "unknown"
	stateNone    = "none" // nothing is copied there
	// stateOffered are objects of this cluster that a rule copies to others; how those stand is for them to say.
	stateOffered = "offered"
)

func stateOf(d syncrules.Decision, facts syncrules.Facts) string {
	switch d.Action {
	case syncrules.Create, syncrules.Update, syncrules.UpdateStatus:
		return statePending
	case syncrules.Delete, syncrules.MarkOrphan:
		return stateGone
	case syncrules.Conflict:
		return stateBlocked
	case syncrules.Freeze:
		for _, c := range facts.Claims {
			if c.Origin == d.Owner && (c.Standing == syncrules.Unknown || c.Standing == syncrules.Awaited) {
				return stateUnknown
			}
		}
		return stateBlocked
	case syncrules.Wait:
		return stateUnknown
	case syncrules.None:
	}
	if facts.Local != nil && syncrules.IsCopy(facts.Local) {
		return stateInSync
	}
	return stateNone
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
