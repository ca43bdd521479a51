// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package syncrules

import (
	"cmp"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// Standing is what is known of one cluster's object for a copy.
type Standing uint8

const (
	// Unknown: the source has not said, or cannot be asked now. Nothing may be concluded.
	Unknown Standing = iota
	// Awaited is Unknown that is about to end: the source was asked a moment ago.
	Awaited
	// Offered: a rule in force selects the object; the claim has the copy.
	Offered
	// Held: copies of the object stay as they are: paused, withdrawn, in deletion, refused.
	Held
	// Gone: the source has no object, or none that a rule selects; known from a complete list of a live watch.
	Gone
	// Released: no rule in force asks for objects of the cluster any more, or it was edited so that it
	// does not select this one.
	Released
)

// Claim is one living cluster's part in a decision. A cluster without any part has none.
type Claim struct {
	Origin   string
	Standing Standing
	// Desired is the rendered copy, when Offered. Claims with the same content may share the one that was
	// rendered for the owner of Local or else for the first of them.
	Desired *unstructured.Unstructured
	// Fate is what the policy says of the copy, when Gone or Released.
	Fate v1alpha1.DeletionPolicy
	// Reason says why, for people, unless Offered.
	Reason string
}

// Facts is everything that the decision about one copy depends on.
type Facts struct {
	// Self is the local cluster.
	Self string
	// Local is the object that is there, a copy or not; nil when none is known.
	Local *unstructured.Unstructured
	// Claims are ordered by origin, at most one each.
	Claims []Claim
	// OwnerGone says that the owner of Local is known to have left the group. An owner that is merely
	// not known has no claim, and its copies stay as they are.
	OwnerGone bool
	// Accepted is what the server made of the last write, if that was not what was asked for.
	Accepted Accepted
	// Tolerate leaves labels and annotations that nobody asked for: they came back too often.
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
	// UpdateStatus writes the status of Decision.Object, which has the content that it should have, over the
	// version that was decided on. It is for the status subresource, where the kind has one.
	UpdateStatus
	// Delete deletes Decision.Object in the version that was decided on.
	Delete
	// MarkOrphan writes Decision.Object, the copy with the mark of an orphan.
	MarkOrphan
	// Freeze leaves the copy as it is, although it may not be as it should be.
	Freeze
	// Wait leaves an object that is not there uncreated for a moment.
	Wait
	// Conflict leaves alone what somebody else holds.
	Conflict
)

// String is the word for logs and metrics.
func (a Action) String() string {
	return [...]string{"none", "create", "update", "update-status", "delete", "orphan", "freeze", "wait", "conflict"}[a]
}

// Decision is the outcome of Plan.
type Decision struct {
	Action Action
	// Owner is the cluster that the copy belongs to after the action, if it is known.
	Owner string
	// Object is what to write or delete; Desired the rendered copy that a create, update or update of the
	// status is about.
	Object, Desired *unstructured.Unstructured
	// Difference is what made an update necessary.
	Difference Difference
	// Reason explains a Freeze or Conflict to people.
	Reason string
	// Rivals are other living origins that offer different content under the same name.
	Rivals []string
}

// Plan decides about one copy. It is total, and idempotent: after its action has been taken, it says None
// (or Freeze, for what it has just orphaned) on the same claims.
func Plan(f Facts) Decision {
	if f.Local == nil {
		return planMissing(f)
	}
	owner := Owner(f.Local)
	switch {
	case owner == "":
		return planForeign(f)
	case owner == f.Self:
		return Decision{Action: Conflict, Owner: owner, Reason: "it is marked as a copy that this cluster itself owns; remove the marks to make it an object of this cluster, or delete it"}
	}
	if why := freezesCopy(f.Local); why != "" {
		return Decision{Action: Freeze, Owner: owner, Reason: why}
	}
	d := planCopy(f, owner)
	d.Owner = cmp.Or(d.Owner, owner)
	return d
}

// planMissing: the first living origin that offers the object gets the copy, unless one before it is about
// to say whether it has one.
func planMissing(f Facts) Decision {
	for i, c := range f.Claims {
		switch c.Standing {
		case Awaited:
			if offered(f.Claims[i:]) {
				return Decision{Action: Wait, Reason: c.Reason}
			}
		case Offered:
			return Decision{Action: Create, Owner: c.Origin, Object: c.Desired, Desired: c.Desired, Rivals: rivals(f, c.Origin, c.Desired, Agree)}
		case Unknown, Held, Gone, Released:
		}
	}
	return Decision{Action: None}
}

func offered(claims []Claim) bool {
	for _, c := range claims {
		if c.Standing == Offered {
			return true
		}
	}
	return false
}

// planForeign: an object without marks is local. It is in the way only of copies that differ from it.
func planForeign(f Facts) Decision {
	return Foreign(rivals(f, "", f.Local, Equivalent))
}

// Foreign is the decision about an object without marks when it is known already which origins offer something
// else under its name.
func Foreign(rivals []string) Decision {
	if len(rivals) == 0 {
		return Decision{Action: None}
	}
	return Decision{Action: Conflict, Rivals: rivals, Reason: "an object of this cluster has the name; rename or delete one of the two"}
}

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
		if ruled && !Orphaned(f.Local) { // an orphan is adopted or left, never deleted
			d = dispose(f.Local, own.Fate, own.Reason)
		}
		if d.Action == Delete {
			return d
		}
		return withRivals(f, d, owner)
	case Unknown, Awaited, Held:
	}
	return Decision{Action: Freeze, Reason: own.Reason}
}

func planOffered(f Facts, own *Claim) Decision {
	d := Decision{Action: None, Rivals: rivals(f, own.Origin, own.Desired, Agree)}
	d.Difference = Compare(f.Local, own.Desired)
	switch {
	case d.Difference == Same, d.Difference == Extra && f.Tolerate, f.Accepted.content(own.Desired, f.Local):
		if !sameStatus(f.Local, own.Desired) && !f.Accepted.hasStatus(own.Desired, f.Local) {
			d.Action, d.Object, d.Desired = UpdateStatus, withStatus(f.Local, own.Desired), own.Desired
		}
	default:
		d.Action, d.Object, d.Desired = Update, Updated(f.Local, own.Desired), own.Desired
	}
	return d
}

// planOwnerless: the owner has left the group. The copy becomes an orphan, unless another origin has the very
// same content: then handing it over changes nothing but the marks. Any other move needs local confirmation.
func planOwnerless(f Facts, ruled bool) Decision {
	for _, c := range f.Claims {
		if c.Standing == Offered && Equivalent(f.Local, c.Desired) {
			return Decision{Action: Update, Owner: c.Origin, Object: Updated(f.Local, c.Desired), Desired: c.Desired, Difference: Changed}
		}
	}
	d := Decision{Action: Freeze, Reason: "its owner has left the group"}
	if ruled && !Orphaned(f.Local) {
		d = dispose(f.Local, v1alpha1.DeletionOrphan, d.Reason)
	}
	return withRivals(f, d, "")
}

func dispose(local *unstructured.Unstructured, fate v1alpha1.DeletionPolicy, reason string) Decision {
	if fate == v1alpha1.DeletionDelete {
		return Decision{Action: Delete, Object: local, Reason: reason}
	}
	return Decision{Action: MarkOrphan, Object: Orphan(local), Reason: reason}
}

// withRivals turns a copy that stays into a conflict when another origin offers something else for its name.
func withRivals(f Facts, d Decision, owner string) Decision {
	d.Rivals = rivals(f, owner, f.Local, Equivalent)
	if d.Action == Freeze && len(d.Rivals) > 0 {
		d.Action = Conflict
		d.Reason += "; another cluster offers the object: delete the copy to take that one"
	}
	return d
}

// rivals are the other origins whose offer is not the same as content.
func rivals(f Facts, owner string, content *unstructured.Unstructured, same func(a, b *unstructured.Unstructured) bool) []string {
	var out []string
	compared := map[*unstructured.Unstructured]bool{content: true} // many origins may share one rendered copy
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
