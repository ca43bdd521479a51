// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/syncrules"
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
	consent  syncrules.Consent
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

// version is the one in which objects of a kind are read: that of the first rule about it.
func (q *inquiry) version(gk schema.GroupKind) string {
	for _, r := range q.rules {
		if r.compiled != nil && r.compiled.Kind().GroupKind() == gk {
			return r.compiled.Kind().Version
		}
	}
	return ""
}

func (q *inquiry) input(from, to *reached) syncrules.Input {
	in := syncrules.Input{Owner: from.id, Cluster: from.cluster, LocalCluster: to.cluster}
	if to.api != nil {
		in.Namespaced = to.api.namespaced
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
	if r.compiled == nil {
		return verdictHeld, name + " cannot be used: " + oneLine(r.err.Error())
	}
	kind := r.compiled.Kind()
	switch version := q.version(kind.GroupKind()); {
	case kind.Version != version:
		return verdictHeld, fmt.Sprintf("%s asks for version %s, another rule for %s", name, kind.Version, version)
	case !r.compiled.Targets(to.cluster.Labels):
		return verdictNo, name + ": " + fieldText(r.compiled.ExplainTargets(to.cluster.Labels))
	case !to.local && r.file == "" && to.rulesWhy != "":
		return verdictUnknown, "whether " + name + " is in cluster " + to.name + " is not known: " + to.rulesWhy
	case !to.local && r.file == "" && !to.rules[r.api.Name]:
		return verdictNo, name + " is not in cluster " + to.name
	case r.compiled.HasFeatures() && from.featuresWhy != "":
		return verdictUnknown, "the features of cluster " + from.name + " are not known: " + from.featuresWhy
	case !r.compiled.FeaturesMatch(from.features):
		for _, v := range r.compiled.ExplainFeatures(from.features) {
			if !v.Matched {
				why = fieldText(v)
			}
		}
		return verdictNo, name + ": " + why
	case from.disabled:
		return verdictHeld, "cluster " + from.name + " is disabled here by the annotation " + v1alpha1.AnnotationClusterDisabled
	case r.compiled.Paused():
		return verdictHeld, name + " is paused"
	}
	return verdictYes, ""
}

func fieldText(v syncrules.FieldVerdict) string { return v.Path + ": " + v.Text }

// offer is what one cluster has for one place in another.
type offer struct {
	from  *reached
	obj   *unstructured.Unstructured
	rules []*syncrules.Rule // by name
	names []string
	// held says why the copy must stay as it is; unknown that it is because something is not known.
	held    string
	unknown bool
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
		o := out[at]
		if o == nil {
			o = &offer{from: from, obj: obj, held: why}
			out[at] = o
		}
		o.names = append(o.names, r.api.Name)
		if verdict == verdictYes {
			o.rules = append(o.rules, r.compiled)
		} else {
			o.held, o.unknown = cmp.Or(o.held, because), o.unknown || verdict == verdictUnknown
		}
	}
	return out, problems
}

// claim is what an offer means for the decision.
func (q *inquiry) claim(o *offer, to *reached) syncrules.Claim {
	c := syncrules.Claim{Origin: o.from.id, Standing: syncrules.Held, Reason: o.held}
	switch {
	case o.unknown:
		c.Standing = syncrules.Unknown
		return c
	case o.held != "":
		return c
	}
	desired, err := syncrules.Render(o.rules, o.obj, q.input(o.from, to))
	if err == nil {
		err = q.consent.Refuse(desired)
	}
	if err != nil {
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
	source, err := owner.api.get(ctx, syncrules.Source(copied))
	if err != nil {
		c.Reason = "its source in cluster " + owner.name + " cannot be read: " + reasonOf(err)
		return c
	}
	return q.lostClaim(c, copied, source, owner, to)
}

// lostClaim weighs what the rules say that made a copy whose source is gone or not selected any more. Of
// several fates orphaning wins, as with an agent.
func (q *inquiry) lostClaim(c syncrules.Claim, copied, source *unstructured.Unstructured, owner, to *reached) syncrules.Claim {
	c.Fate = v1alpha1.DeletionDelete
	fate := func(p v1alpha1.DeletionPolicy, why string) {
		if c.Reason = cmp.Or(c.Reason, why); p == v1alpha1.DeletionOrphan {
			c.Fate = p
		}
	}
	c.Standing = syncrules.Released
	forms := syncrules.Selections(copied)
	for i, name := range syncrules.MadeBy(copied) {
		r := q.rule(name)
		if r == nil {
			fate(syncrules.RuleDeletion(copied), "rule "+name+" is gone")
			continue
		}
		verdict, why := q.relate(r, owner, to)
		switch verdict {
		case verdictHeld, verdictUnknown:
			return syncrules.Claim{Origin: owner.id, Standing: syncrules.Held, Reason: why}
		case verdictNo:
			fate(r.compiled.RuleDeletion(), why)
		case verdictYes:
			// As with an agent: unless the rule had selected the source in its present form, it is put down to
			// the edit.
			if i >= len(forms) || forms[i] != r.compiled.Selection() {
				fate(r.compiled.RuleDeletion(), "rule "+name+" was edited and does not select its source any more")
				continue
			}
			c.Standing = syncrules.Gone
			why = "rule " + name + " does not select its source in cluster " + owner.name + " any more"
			if source == nil {
				why = "its source is gone in cluster " + owner.name
			}
			fate(r.compiled.Deletion(), why)
		}
	}
	return c
}

// weigh decides about one place in one cluster, by the same function as its agent.
func (q *inquiry) weigh(ctx context.Context, to *reached, at syncrules.Place, local *unstructured.Unstructured, offers []*offer) *copyReport {
	facts := syncrules.Facts{Self: to.id, Local: local}
	out := &copyReport{Cluster: to.name, ClusterID: to.id, Object: refOf(at), Rules: []string{}, Action: syncrules.None.String()}
	owner := ""
	if local != nil && syncrules.IsCopy(local) {
		owner = syncrules.Owner(local)
	}
	for _, o := range offers {
		facts.Claims = append(facts.Claims, q.claim(o, to))
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
	q.decide(ctx, out, facts, to, offers)
	slices.Sort(out.Rules)
	return out
}

// decide fills in what becomes of the copy.
func (q *inquiry) decide(ctx context.Context, out *copyReport, facts syncrules.Facts, to *reached, offers []*offer) {
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
	q.compare(ctx, out, facts.Local, d, to, q.redaction(facts, d, offers))
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
	text := reasonOf(err)
	if isSecret(obj.GroupVersionKind()) && !errors.Is(err, syncrules.ErrConsent) {
		text = withoutValues(text, obj)
	}
	return text
}
