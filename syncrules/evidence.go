// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package syncrules

import (
	"cmp"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// Found is what is known of a source, as one rule selects it for one copy.
type Found uint8

const (
	// FoundUnknown: the source's cluster has not said, or cannot be asked now.
	FoundUnknown Found = iota
	// FoundAwaited is FoundUnknown that is about to end: the cluster was asked a moment ago.
	FoundAwaited
	// FoundLacking: everything that the cluster has for the rule is known, and the source is not there, or not selected.
	FoundLacking
	// FoundDeleted is FoundLacking with proof: the deletion was seen.
	FoundDeleted
	// FoundElsewhere: the source is there, and its copy belongs into another place.
	FoundElsewhere
	// FoundFaulty: the source is there, and where its copy belongs cannot be told.
	FoundFaulty
	// FoundPresent: the source is there, and selected for the place of the copy.
	FoundPresent
)

// Evidence is all that is known about one rule, one source and the copy of it, made or to be made. The agent gathers it
// from its watches, and agentctl by asking; Weigh draws the same conclusions from it for both.
type Evidence struct {
	// Rule is the name of the rule; Cluster is what people call the cluster of the source.
	Rule, Cluster string
	// Made says that the rule made the copy which is there.
	Made bool
	// Relation is what the rule says of the cluster's objects. Why explains it unless it is Asks; with Asks it may
	// explain FoundUnknown.
	Relation Relation
	Why      string
	Found    Found
	// Obstacle is why copies of a source that is present stay as they are, "" normally. See the function Obstacle.
	Obstacle string
	// Deletion is the rule's policy for copies whose source is gone, RuleDeletion for those that it lets go of.
	Deletion, RuleDeletion v1alpha1.DeletionPolicy

	// The rest counts only for a copy that the rule made, and whose source is lacking, deleted or elsewhere.

	// Selected says that the copy carries the present selection of the rule (SelectedBy).
	Selected bool
	// Unread says that the rule does not read objects where the copy's marks say that the source is, while something
	// that it does read is not known: the marks may have been changed.
	Unread bool
	// Suspect says that the rule was edited while the deletion guard had stopped it.
	Suspect bool
	// Counted says that it was counted what the cluster lacks of the rule's copies, and Complete that all copies of
	// the rule are known: the deletion guard comes before any deletion.
	Counted, Complete bool
}

// RuleGone is the evidence about a copy of which a rule says that it made it, and that does not exist any more; fate is
// what the copy says is to become of it then (RuleDeletion).
func RuleGone(rule string, fate v1alpha1.DeletionPolicy) Evidence {
	return Evidence{Rule: rule, Made: true, Relation: Excludes, Why: "rule " + rule + " is gone", RuleDeletion: fate}
}

// Weigh hears the evidence about one rule. A rule that did not make the copy is in nobody's way: it is heard when it asks
// for objects of the cluster, and then it holds nothing and lets go of nothing.
func (s *Summary) Weigh(e Evidence) {
	switch {
	case e.Relation == Asks:
		s.weighFound(e)
	case !e.Made:
	case e.Relation == Excludes:
		s.release(e.RuleDeletion, e.Why)
	case e.Relation == Unclear:
		s.hold(Unknown, e.Why)
	default:
		s.hold(Held, e.Why)
	}
}

func (s *Summary) weighFound(e Evidence) {
	switch e.Found {
	case FoundPresent:
		if e.Obstacle != "" {
			s.hold(Held, e.Obstacle)
		}
	case FoundAwaited:
		s.doubt(Awaited)
		if e.Made {
			s.hold(Awaited, "cluster "+e.Cluster+" was asked just now")
		}
	case FoundUnknown:
		s.doubt(Unknown)
		if e.Made {
			s.hold(Unknown, e.unknown())
		}
	case FoundFaulty:
		s.doubt(Unknown)
		if e.Made {
			s.hold(Held, "where rule "+e.Rule+" puts it cannot be told")
		}
	case FoundLacking, FoundDeleted, FoundElsewhere:
		if e.Made {
			s.weighLost(e)
		}
	}
}

// weighLost is about a copy that the rule made and makes no more.
func (s *Summary) weighLost(e Evidence) {
	switch {
	case e.Unread:
		s.hold(Unknown, e.unknown())
	case !e.Selected && (!e.Suspect || e.Counted):
		s.release(e.RuleDeletion, "rule "+e.Rule+" was edited and does not select its source any more")
	case (e.Found == FoundLacking || !e.Selected) && !e.Counted, !e.Complete:
		s.hold(Unknown, "the copies of cluster "+e.Cluster+" are being counted")
	case e.Found == FoundElsewhere:
		s.lose(e.Deletion, "rule "+e.Rule+" puts the copy of its source in cluster "+e.Cluster+" elsewhere now")
	default:
		s.lose(e.Deletion, "its source is gone in cluster "+e.Cluster+", or rule "+e.Rule+" does not select it any more")
	}
}

func (e *Evidence) unknown() string {
	return cmp.Or(e.Why, "what cluster "+e.Cluster+" has is not known now")
}

// Summary weighs what several rules say about one object of a cluster, for one copy. The zero value has heard nothing.
// Each rule is heard once by Weigh: those that made the copy, also when they have nothing to offer, and those that offer.
type Summary struct {
	held, unknown     bool // by a rule that made the copy, or by the source itself
	gone, released    bool
	standing          Standing // of held or unknown
	goneFate, relFate v1alpha1.DeletionPolicy
	why, goneWhy      string
}

// Hold notes, beside the evidence of rules, that the copy must stay as it is: its source says so.
func (s *Summary) Hold(why string) { s.hold(Held, why) }

// hold notes that the copy must stay as it is: Unknown, Awaited or Held.
func (s *Summary) hold(standing Standing, why string) {
	s.held, s.standing, s.why = true, max(s.standing, standing), cmp.Or(s.why, why)
}

// doubt notes that a rule cannot tell, Unknown or Awaited, and need not be waited for where another one offers.
func (s *Summary) doubt(standing Standing) {
	s.unknown, s.standing = true, max(s.standing, standing)
}

// release notes that a rule lets go of the copy by itself, and lose that its source is gone for the rule. Of several
// fates, orphaning wins.
func (s *Summary) release(fate v1alpha1.DeletionPolicy, why string) {
	s.released, s.why = true, cmp.Or(s.why, why)
	if s.relFate != v1alpha1.DeletionOrphan {
		s.relFate = fate
	}
}

func (s *Summary) lose(fate v1alpha1.DeletionPolicy, why string) {
	s.gone, s.goneWhy = true, why
	if s.goneFate != v1alpha1.DeletionOrphan {
		s.goneFate = fate
	}
}

// Conclude fills in the standing of a claim, its fate and, unless it is Offered, the reason; offered says that some rule
// offers a copy. It returns false where no rule has anything to say.
func (s *Summary) Conclude(c Claim, offered bool) (Claim, bool) {
	c.Reason = s.why
	switch {
	case s.held:
		c.Standing = s.standing
	case offered:
		c.Standing, c.Reason = Offered, ""
	case s.gone:
		c.Standing, c.Fate, c.Reason = Gone, s.goneFate, s.goneWhy
	case s.released:
		c.Standing, c.Fate = Released, s.relFate
	case s.unknown:
		c.Standing = s.standing
	default:
		return c, false
	}
	return c, true
}
