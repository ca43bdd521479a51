// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package syncrules

import (
	"cmp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/syncrules/adopt"
)

// Standing is what is known about the source of a copy in one cluster.
type Standing uint8

const (
	// Unknown means that the cluster has not answered, or cannot be asked now. A copy is frozen.
	Unknown Standing = iota
	// Awaited is Unknown for a moment: the cluster was asked just now.
	Awaited
	// Offered means that a rule selects the source. The claim has the rendered copy.
	Offered
	// Held means that a copy is frozen: the rule is paused, or the source is withdrawn, being deleted, or refused.
	Held
	// Gone means that the cluster has no such source, or that no rule selects it. This is known from a complete list of a
	// live watch.
	Gone
	// Released means that no rule asks for objects of the cluster any more, or that the rule was edited and does not
	// select the source any more.
	Released
)

// Claim is what one cluster of the group says about a copy. A cluster that says nothing has no claim.
type Claim struct {
	// Origin is the clusterID.
	Origin   string
	Standing Standing
	// Desired is the rendered copy, if Offered. Claims with the same content may share the one that was rendered for
	// the owner of Local, or else for the first of them.
	Desired *unstructured.Unstructured
	// Policy says what becomes of the copy, if Gone or Released.
	Policy v1alpha1.DeletionPolicy
	// Reason explains the standing to people, unless it is Offered.
	Reason string
	// Adopters are the rules that offer it, if all of them adopt what is in its place.
	Adopters []*Rule
}

// Facts is everything that the decision about one copy depends on.
type Facts struct {
	// Self is the clusterID of the local cluster.
	Self string
	// Local is the object in the place of the copy, whether it is a copy or not; nil if none is known.
	Local *unstructured.Unstructured
	// Claims are ordered by origin, at most one each.
	Claims []Claim
	// OwnerGone says that the owner of Local is known to have left the group. An owner that is only unknown has no
	// claim, and its copies are frozen.
	OwnerGone bool
	// Observes is why rules that made Local only look, "" if none does. It is for OwnerGone: else claims say it.
	Observes string
	// Accepted is what the server stored at the last write, if that differs from what was written.
	Accepted Accepted
	// Tolerate says that additional labels and annotations on the copy are left: they came back too often.
	Tolerate bool
}

// Action is what to do.
type Action uint8

const (
	// None: the copy is as it should be, or there is nothing to copy.
	None Action = iota
	// Create writes Decision.Object, which is not there yet.
	Create
	// Update writes Decision.Object over the version that was decided on.
	Update
	// UpdateStatus writes the status of Decision.Object over the version that was decided on; the rest is as it should
	// be. It is for the status subresource, if the kind has one.
	UpdateStatus
	// Delete deletes Decision.Object in the version that was decided on.
	Delete
	// MarkOrphan writes Decision.Object, the copy with the mark of an orphan.
	MarkOrphan
	// Freeze leaves the copy as it is, although it may differ from what it should be. See freeze.go.
	Freeze
	// Wait means that a missing copy is not created yet, for a moment.
	Wait
	// Conflict leaves an object as it is that belongs to somebody else.
	Conflict
)

// String returns the word for logs and metrics.
func (a Action) String() string {
	return [...]string{"none", "create", "update", "update-status", "delete", "orphan", "freeze", "wait", "conflict"}[a]
}

// Decision is the outcome of Plan.
type Decision struct {
	Action Action
	// Owner is the cluster that the copy belongs to after the action, if it is known.
	Owner string
	// Object is what to write or delete. Desired is the rendered copy of a create, an update, or an update of the status.
	Object, Desired *unstructured.Unstructured
	// Difference is what made an update necessary.
	Difference Difference
	// Reason explains a Freeze or Conflict to people.
	Reason string
	// Rivals are other clusters of the group that offer different content for the same place.
	Rivals []string
}

// Plan decides about one copy. It has an answer for all facts. It is idempotent: after the action was taken, the same claims
// lead to None (or Freeze, for a copy that was just orphaned).
func Plan(f Facts) Decision {
	if f.Local == nil {
		return planMissing(f)
	}
	owner := Owner(f.Local)
	switch owner {
	case "":
		return planForeign(f)
	case f.Self:
		return Decision{Action: Conflict, Owner: owner, Reason: "it is marked as a copy that this cluster itself owns; remove the marks to make it an object of this cluster, or delete it"}
	}
	if why := freezesCopy(f.Local); why != "" {
		return Decision{Action: Freeze, Owner: owner, Reason: why}
	}
	d := planCopy(f, owner)
	d.Owner = cmp.Or(d.Owner, owner)
	return d
}

// planMissing decides about a copy that does not exist. The first cluster that offers one owns it, unless a cluster before
// it was just asked, and has not answered yet.
func planMissing(f Facts) Decision {
	for i, c := range f.Claims {
		switch c.Standing {
		case Awaited:
			if slices.ContainsFunc(f.Claims[i:], func(c Claim) bool { return c.Standing == Offered }) {
				return Decision{Action: Wait, Reason: c.Reason}
			}
		case Offered:
			return Decision{Action: Create, Owner: c.Origin, Object: c.Desired, Desired: c.Desired, Rivals: rivals(f, c.Origin, c.Desired, Agree)}
		case Unknown, Held, Gone, Released:
		}
	}
	return Decision{Action: None}
}

// planForeign decides about an object that is not a copy. The first cluster that offers one owns it, if its rules may adopt it.
func planForeign(f Facts) Decision {
	d := PlanForeign(rivals(f, "", f.Local, Equivalent))
	i := slices.IndexFunc(f.Claims, func(c Claim) bool { return c.Standing == Offered })
	if i < 0 || len(f.Claims[i].Adopters) == 0 {
		return d
	}
	c := f.Claims[i]
	names := namesOf(c.Adopters)
	if why := adopt.Refuses(f.Local, names, c.Origin, c.Origin > f.Self && offeredBy(c.Adopters, f.Local)); why != "" {
		if d.Action == Conflict {
			d.Reason += "; rule " + strings.Join(names, ", ") + " does not adopt it: " + why
		}
		return d
	}
	d = planHandOver(f, &f.Claims[i], true)
	d.Reason = "it was there before, and is adopted"
	adopt.Mark(d.Object)
	return d
}

// Adopters are the rules, if all of them adopt what is in the place of their copy.
func Adopters(rules []*Rule) []*Rule {
	if slices.ContainsFunc(rules, func(r *Rule) bool { return !r.manner.Adopts }) {
		return nil
	}
	return rules
}

// offeredBy says that a cluster which has the object offers it to others by one of the rules.
func offeredBy(rules []*Rule, obj *unstructured.Unstructured) bool {
	return slices.ContainsFunc(rules, func(r *Rule) bool {
		return r.gvk.GroupKind() == obj.GroupVersionKind().GroupKind() && r.Match(obj)
	})
}

// PlanForeign decides about an object that is not a copy. It belongs to this cluster, and conflicts only with rivals: the
// clusters that offer other content for its place.
func PlanForeign(rivals []string) Decision {
	if len(rivals) == 0 {
		return Decision{Action: None}
	}
	return Decision{Action: Conflict, Rivals: rivals, Reason: "an object of this cluster has the name; rename or delete one of the two"}
}

// planCopy decides about a copy that exists.
func planCopy(f Facts, owner string) Decision {
	var own *Claim
	for i := range f.Claims {
		if f.Claims[i].Origin == owner {
			own = &f.Claims[i]
		}
	}
	ruled := len(MadeBy(f.Local)) > 0
	switch {
	case f.OwnerGone:
		return planOwnerless(f, ruled)
	case own == nil:
		d := Decision{Action: Freeze, Reason: "nothing is known of its owner, cluster " + owner}
		return withRivals(f, d, owner)
	}
	switch own.Standing {
	case Offered:
		return planOffered(f, own)
	case Gone, Released:
		d := Decision{Action: Freeze, Reason: own.Reason}
		if ruled && !Orphaned(f.Local) { // an orphan gets an owner again or stays; it is never deleted
			d = deleteOrOrphan(f.Local, own.Policy, own.Reason)
		}
		if d.Action != Delete {
			return withRivals(f, d, owner)
		}
		if i := slices.IndexFunc(f.Claims, func(c Claim) bool { return c.Standing == Offered }); i >= 0 && own.Standing == Gone {
			return planHandOver(f, &f.Claims[i], adopt.Marked(f.Local))
		}
		return d
	case Unknown, Awaited, Held:
	}
	return Decision{Action: Freeze, Reason: own.Reason}
}

// planOffered decides about a copy whose owner offers it.
func planOffered(f Facts, own *Claim) Decision {
	desired := adopt.Desired(adopt.Marked(f.Local), own.Desired)
	d := Decision{Action: None, Rivals: rivals(f, own.Origin, own.Desired, Agree)}
	d.Difference = Compare(f.Local, desired)
	switch {
	case d.Difference == Same, d.Difference == Extra && f.Tolerate, f.Accepted.content(desired, f.Local):
		if !sameStatus(f.Local, desired) && !f.Accepted.status(desired, f.Local) {
			d.Action, d.Object, d.Desired = UpdateStatus, withStatus(f.Local, desired), desired
		}
	default:
		d.Action, d.Object, d.Desired = Update, Updated(f.Local, desired), desired
	}
	return d
}

// planHandOver makes what is there the copy of a cluster that offers it. adopted says that no agent has made it.
func planHandOver(f Facts, to *Claim, adopted bool) Decision {
	desired := adopt.Desired(adopted, to.Desired)
	return Decision{Action: Update, Owner: to.Origin, Object: Updated(f.Local, desired), Desired: desired, Difference: Changed, Rivals: rivals(f, to.Origin, to.Desired, Agree)}
}

// planOwnerless decides about a copy whose owner has left the group. If another cluster offers the same content, it becomes
// the owner, and only labels and annotations change. Otherwise the copy becomes an orphan.
func planOwnerless(f Facts, ruled bool) Decision {
	if f.Observes != "" {
		return Decision{Action: Freeze, Reason: f.Observes}
	}
	for i, c := range f.Claims {
		if c.Standing == Offered && Equivalent(f.Local, c.Desired) {
			return planHandOver(f, &f.Claims[i], adopt.Marked(f.Local))
		}
	}
	d := Decision{Action: Freeze, Reason: "its owner has left the group"}
	if ruled && !Orphaned(f.Local) {
		d = deleteOrOrphan(f.Local, v1alpha1.DeletionOrphan, d.Reason)
	}
	return withRivals(f, d, "")
}

// deleteOrOrphan does what the policy says.
func deleteOrOrphan(local *unstructured.Unstructured, policy v1alpha1.DeletionPolicy, reason string) Decision {
	if policy == v1alpha1.DeletionDelete && !adopt.Marked(local) {
		return Decision{Action: Delete, Object: local, Reason: reason}
	}
	return Decision{Action: MarkOrphan, Object: Orphan(local), Reason: reason}
}

// withRivals makes a frozen copy a conflict if another cluster offers other content for its place.
func withRivals(f Facts, d Decision, owner string) Decision {
	d.Rivals = rivals(f, owner, f.Local, Equivalent)
	if d.Action == Freeze && len(d.Rivals) > 0 {
		d.Action = Conflict
		d.Reason += "; another cluster offers the object: delete the copy to take that one"
	}
	return d
}

// rivals returns the other clusters that offer something that is not the same as content.
func rivals(f Facts, owner string, content *unstructured.Unstructured, same func(a, b *unstructured.Unstructured) bool) []string {
	var out []string
	compared := map[*unstructured.Unstructured]bool{content: true} // many claims may share one rendered copy
	for _, c := range f.Claims {
		if c.Standing != Offered || c.Origin == owner {
			continue
		}
		agrees, known := compared[c.Desired]
		if !known {
			agrees = same(content, c.Desired)
			compared[c.Desired] = agrees
		}
		if !agrees {
			out = append(out, c.Origin)
		}
	}
	return out
}
