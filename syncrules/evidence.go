// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package syncrules

import (
	"cmp"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// Found is what is known about the source of one copy, for one rule.
type Found uint8

const (
	// FoundUnknown means that the source's cluster has not answered, or cannot be asked now.
	FoundUnknown Found = iota
	// FoundAwaited is FoundUnknown for a moment: the cluster was asked just now.
	FoundAwaited
	// FoundLacking means that all objects of the cluster that the rule selects are known, and the source is not one of them.
	FoundLacking
	// FoundDeleted is FoundLacking with proof: the deletion was seen.
	FoundDeleted
	// FoundElsewhere means that the source exists, and its copy belongs in another place.
	FoundElsewhere
	// FoundFaulty means that the source exists, and the place of its copy cannot be determined.
	FoundFaulty
	// FoundPresent means that the source exists, and is selected for the place of the copy.
	FoundPresent
)

// Evidence is all that is known about one rule, one source, and its copy, which may not exist yet. The agent collects it
// from its watches, and agentctl with requests. Both pass it to Weigh, and so come to the same conclusions.
type Evidence struct {
	// Rule is the name of the rule. Cluster is the name of the source's cluster for people.
	Rule, Cluster string
	// Made says that the copy exists, and that the rule made it.
	Made bool
	// Relation is what the rule says about the cluster's objects. Why is the reason, unless Relation is Asks; then it
	// may explain what was found, such as that the namespace of the copy is not one that the rule selects.
	Relation Relation
	Why      string
	Found    Found
	// Observes is why the rule only looks, "" normally and where it is asked what it would do.
	Observes string
	// Obstacle is why copies of a source that exists are frozen, "" normally. See the function Obstacle.
	Obstacle string
	// Deletion is the rule's policy for copies whose source is gone. RuleDeletion is its policy for copies that it does
	// not ask for any more.
	Deletion, RuleDeletion v1alpha1.DeletionPolicy

	// The fields below are used only if the rule made the copy, and the source is lacking, deleted or elsewhere.

	// Selected says that the copy carries the present selection of the rule (SelectedBy).
	Selected bool
	// Unread says that the rule does not read objects in the place where the source is according to the copy's
	// annotations, and that not all that it reads is known: the annotations may have been changed.
	Unread bool
	// Suspect says that the rule was edited while the deletion guard had stopped it.
	Suspect bool
	// Counted says that the copies of the rule whose source the cluster lacks were counted. Complete says that all
	// copies of the rule are known. The deletion guard needs both before anything is deleted.
	Counted, Complete bool
}

// RuleGone is the evidence about a copy whose rule does not exist any more. The copy carries the policy for that case
// (RuleDeletion).
func RuleGone(rule string, policy v1alpha1.DeletionPolicy) Evidence {
	return Evidence{Rule: rule, Made: true, Relation: Excludes, Why: "rule " + rule + " is gone", RuleDeletion: policy}
}

// Weigh adds the evidence about one rule. A rule that did not make the copy neither holds nor releases it: it counts only
// if it asks for objects of the cluster.
func (s *Summary) Weigh(e Evidence) {
	switch {
	case e.Observes != "":
		if e.Made {
			s.hold(Held, e.Observes)
		}
	case e.Relation == Asks:
		s.weighFound(e)
	case !e.Made:
	case e.Relation == Excludes:
		s.release(e.RuleDeletion, e.Why)
	case e.Relation == Refused:
		s.refused = cmp.Or(s.refused, e.Why)
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
			s.hold(Awaited, "cluster "+e.Cluster+" has not answered yet")
		}
	case FoundUnknown:
		s.doubt(Unknown)
		if e.Made {
			s.hold(Unknown, e.unknown())
		}
	case FoundFaulty:
		s.doubt(Unknown)
		if e.Made {
			s.hold(Held, "where rule "+e.Rule+" puts it cannot be determined")
		}
	case FoundLacking, FoundDeleted, FoundElsewhere:
		if e.Made {
			s.weighLost(e)
		}
	}
}

// weighLost is about a copy that the rule made and does not make any more.
func (s *Summary) weighLost(e Evidence) {
	switch {
	case e.Unread:
		s.hold(Unknown, e.unknown())
	case !e.Selected && (!e.Suspect || e.Counted):
		s.release(e.RuleDeletion, "rule "+e.Rule+" was edited and does not select its source any more")
	case (e.Found == FoundLacking || !e.Selected) && !e.Counted, !e.Complete:
		s.hold(Unknown, "the copies of cluster "+e.Cluster+" are being counted")
	case e.Found == FoundElsewhere:
		s.lose(e.Deletion, cmp.Or(e.Why, "rule "+e.Rule+" puts the copy of its source in cluster "+e.Cluster+" elsewhere now"))
	default:
		s.lose(e.Deletion, cmp.Or(e.Why, "its source is gone in cluster "+e.Cluster+", or rule "+e.Rule+" does not select it any more"))
	}
}

func (e *Evidence) unknown() string {
	return cmp.Or(e.Why, "what cluster "+e.Cluster+" has is not known now")
}

// Summary sums up what several rules say about one object of a cluster, for one copy. The zero value is ready for use.
// Weigh is called once for each rule that made the copy, also if it does not offer one now, and for each that offers one.
type Summary struct {
	held, unknown              bool // by a rule that made the copy, or by the source itself
	gone, released             bool
	standing                   Standing // of held or unknown
	gonePolicy, releasedPolicy v1alpha1.DeletionPolicy
	why, goneWhy               string
	refused                    string // why a rule that made the copy is not in force
}

// Hold adds that the copy is frozen because of its source, whatever the rules say.
func (s *Summary) Hold(why string) { s.hold(Held, why) }

// hold adds that the copy is frozen: the standing is Unknown, Awaited or Held.
func (s *Summary) hold(standing Standing, why string) {
	s.held, s.standing, s.why = true, max(s.standing, standing), cmp.Or(s.why, why)
}

// doubt adds that a rule does not know: the standing is Unknown or Awaited. That counts only if no other rule offers a copy.
func (s *Summary) doubt(standing Standing) {
	s.unknown, s.standing = true, max(s.standing, standing)
}

// release adds that a rule does not ask for the copy any more. Of several policies, Orphan wins.
func (s *Summary) release(policy v1alpha1.DeletionPolicy, why string) {
	s.released, s.why = true, cmp.Or(s.why, why)
	if s.releasedPolicy != v1alpha1.DeletionOrphan {
		s.releasedPolicy = policy
	}
}

// lose adds that the source is gone for a rule. Of several policies, Orphan wins.
func (s *Summary) lose(policy v1alpha1.DeletionPolicy, why string) {
	s.gone, s.goneWhy = true, why
	if s.gonePolicy != v1alpha1.DeletionOrphan {
		s.gonePolicy = policy
	}
}

// Conclude fills in the standing of a claim, its policy and, unless it is Offered, the reason; offered says that some rule
// offers a copy. It returns false if no rule says anything about the copy.
func (s *Summary) Conclude(c Claim, offered bool) (Claim, bool) {
	c.Reason = s.why
	switch {
	case s.held:
		c.Standing = s.standing
	case offered:
		c.Standing, c.Reason = Offered, ""
	case s.refused != "": // nothing is deleted because of a refusal
		c.Standing, c.Reason = Held, s.refused
	case s.gone:
		c.Standing, c.Policy, c.Reason = Gone, s.gonePolicy, s.goneWhy
	case s.released:
		c.Standing, c.Policy = Released, s.releasedPolicy
	case s.unknown:
		c.Standing = s.standing
	default:
		return c, false
	}
	return c, true
}
