// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package syncrules

import (
	"cmp"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// Relation is what a rule says about the objects of one cluster in another one.
type Relation uint8

const (
	// Excludes: it asks for none, and copies of it are released.
	Excludes Relation = iota
	// Unusable: the rule cannot be used here. Copies stay as they are.
	Unusable
	// Unclear: what decides on it is not known. Copies stay as they are.
	Unclear
	// Stopped: it asks for them, and copies stay as they are all the same. What the source has should be known.
	Stopped
	// Asks: it asks for them.
	Asks
)

// Between is what a relation depends on.
type Between struct {
	// Labels are those of the Cluster object that copies would be in, if LabelsKnown.
	Labels      map[string]string
	LabelsKnown bool
	// From is what people call the cluster of the sources. Features are its ClusterFeatures, if FeaturesKnown.
	From          string
	Features      []*v1alpha1.ClusterFeature
	FeaturesKnown bool
}

// Relate says whether the rule copies from one cluster to another, and why not. Agents decide by it, and explanations
// say it.
func (r *Rule) Relate(b Between) (rel Relation, why string) {
	switch {
	case r.HasTargets() && !b.LabelsKnown:
		return Unclear, "the labels of this cluster are not known yet"
	case r.HasTargets() && !r.Targets(b.Labels):
		return Excludes, "rule " + r.name + ": " + r.ExplainTargets(b.Labels).String()
	case r.HasFeatures() && !b.FeaturesKnown:
		return Unclear, "the features of cluster " + b.From + " are not known"
	case r.HasFeatures() && !r.FeaturesMatch(b.Features):
		for _, v := range r.ExplainFeatures(b.Features) {
			if !v.Matched {
				why = v.String()
			}
		}
		return Excludes, "rule " + r.name + ": " + why
	case r.Paused():
		return Stopped, "rule " + r.name + " is paused"
	}
	return Asks, ""
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

// SelectedBy says whether a rule, in its present form, is one of those that selected the source of a copy: rules and
// forms are MadeBy and Selections of the copy. Otherwise it may have let go of it by an edit.
func SelectedBy(rules, forms []string, name, selection string) bool {
	i := slices.Index(rules, name)
	return i >= 0 && i < len(forms) && forms[i] == selection
}

// UnusableText says that a rule cannot be used, and why. ClashText says that it is about another version of a kind than an
// older rule, by which objects of the kind are read.
func UnusableText(rule string, err error) string {
	return "rule " + rule + " cannot be used: " + err.Error()
}

// ClashText is explained at UnusableText.
func ClashText(want schema.GroupVersionKind, older string) string {
	return fmt.Sprintf("it is about version %s of %s, an older rule about %s; use one version for all", want.Version, want.GroupKind(), older)
}

// Makes says whether a rule of the name made a copy for the cluster that owns it.
func Makes(name, owner string, copied *unstructured.Unstructured) bool {
	return copied != nil && Owner(copied) == owner && slices.Contains(MadeBy(copied), name)
}
