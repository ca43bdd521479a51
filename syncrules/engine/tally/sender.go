// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package tally

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

const (
	// reportEvery is how often a rule is reported at most, and reportEverySource so much for each of its sources, since the API server
	// works for each. reportFirst is how long the first report waits for the first results.
	reportEvery       = 2 * time.Second
	reportEverySource = 10 * time.Millisecond
	reportFirst       = 100 * time.Millisecond
	// reportCalm is how long a change must last to be worth a report: a watch that lists again is not.
	reportCalm = 500 * time.Millisecond
	// A member can invent clusters, and have it change again and again why they are not reached. So a report that differs in sources
	// alone of which there is nothing is sent the less often, the more often one was: after strangersFirst, and twice as long each
	// time, up to strangersMost.
	strangersFirst = reportEvery
	strangersMost  = 10 * time.Minute
)

// ReasonSourceUnreachable is the reason of a rule that is not Ready since a source is not reached.
const ReasonSourceUnreachable = "SourceUnreachable"

// Sender is when a rule's reports are sent. The zero value has sent none.
type Sender struct {
	Dirty    bool                             // there may be something new
	WasReady bool                             // under the present generation
	Last     *v1alpha1.ResourceSyncRuleStatus // that was sent

	since     time.Time // when it was first seen dirty
	sent      time.Time
	looked    time.Time // when the rule was last summed up
	held      bool      // there is something new, but of strangers alone, which waits until
	strangers time.Time // one was last sent because of them,
	pause     time.Duration
}

// Wait is how long the rule is not yet to be summed up. due is false where there is nothing to tell.
func (s *Sender) Wait(generation int64, now time.Time) (wait time.Duration, due bool) {
	if !s.Dirty {
		return max(0, s.strangers.Add(s.pause).Sub(now)), s.held
	}
	if s.since.IsZero() {
		s.since = now
	}
	at := s.since.Add(reportFirst)
	if s.Last != nil {
		at = slices.MaxFunc([]time.Time{s.since.Add(reportCalm), s.sent.Add(reportEvery)}, time.Time.Compare)
		if again := s.looked.Add(reportEverySource * time.Duration(len(s.Last.Sources))); again.After(at) && s.Last.ObservedGeneration == generation {
			at = again // a person who has changed the rule is told sooner
		}
	}
	return max(0, at.Sub(now)), true
}

// Send takes what the rule was summed up to, and says whether that is to be sent.
func (s *Sender) Send(report *v1alpha1.ResourceSyncRuleStatus, now time.Time) bool {
	s.Dirty, s.held, s.since, s.looked = false, false, time.Time{}, now
	if s.Last != nil {
		if sameReport(*s.Last, *report) {
			return false
		}
		if sameReport(withoutStrangers(*s.Last), withoutStrangers(*report)) {
			calm := now.Sub(s.strangers)
			if s.held = calm < s.pause; s.held {
				return false
			}
			if calm > strangersMost {
				s.pause = 0
			}
			s.strangers, s.pause = now, min(max(2*s.pause, strangersFirst), strangersMost)
		}
	}
	s.Last, s.sent = report, now
	return true
}

// sameReport compares but for the lag, which alone is not worth a write.
func sameReport(a, b v1alpha1.ResourceSyncRuleStatus) bool {
	without := func(in []v1alpha1.SourceStatus) []v1alpha1.SourceStatus {
		out := slices.Clone(in)
		for i := range out {
			out[i].Lag = nil
		}
		return out
	}
	a.Sources, b.Sources = without(a.Sources), without(b.Sources)
	return equality.Semantic.DeepEqual(a, b)
}

// withoutStrangers is the report without the sources that are not reached and of which there is nothing, and without what it says of them.
func withoutStrangers(in v1alpha1.ResourceSyncRuleStatus) v1alpha1.ResourceSyncRuleStatus {
	in.Sources = slices.DeleteFunc(slices.Clone(in.Sources), func(s v1alpha1.SourceStatus) bool {
		return !s.Watching && s.Matched == 0 && s.Failed == 0
	})
	in.Conditions = slices.Clone(in.Conditions)
	for i := range in.Conditions {
		if c := &in.Conditions[i]; c.Reason == ReasonSourceUnreachable {
			c.Message = ""
		}
	}
	return in
}
