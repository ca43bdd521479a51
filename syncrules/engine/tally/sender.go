// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package tally

import (
	"slices"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"

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
	// A member can have it change again and again what is to be said of sources of which nothing is here: of clusters that it invents, or
	// of its own. So of the reports in which nothing else is new there are emptyReports, and then one every emptyEvery. The first of a
	// generation that says that the rule is Ready is none of them.
	emptyReports = 30
	emptyEvery   = 5 * time.Minute
)

// conditionReady is the condition Ready of a rule.
const conditionReady = "Ready"

// Report is what a rule is summed up to.
type Report struct {
	All v1alpha1.ResourceSyncRuleStatus
	// Busy is the same as if there were no empty sources.
	Busy v1alpha1.ResourceSyncRuleStatus
}

// Empty says that nothing of a source is here, neither synced nor failed.
func Empty(s v1alpha1.SourceStatus) bool { return s.Matched == 0 && s.Synced == 0 && s.Failed == 0 }

// Sender is when a rule's reports are sent. The zero value has sent none.
type Sender struct {
	Dirty    bool                             // there may be something new
	WasReady bool                             // under the present generation
	Last     *v1alpha1.ResourceSyncRuleStatus // that was sent

	since  time.Time                        // when it was first seen dirty
	sent   time.Time                        // when Last was
	looked time.Time                        // when the rule was last summed up
	busy   *v1alpha1.ResourceSyncRuleStatus // Report.Busy of Last
	ready  bool                             // one of this generation was sent that says that the rule is Ready
	held   bool                             // there is something new, but of empty sources alone, and there were too many reports of that
	empty  *rate.Limiter                    // those reports
}

// Wait is how long the rule is not yet to be summed up. due is false where there is nothing to tell.
func (s *Sender) Wait(generation int64, now time.Time) (wait time.Duration, due bool) {
	if !s.Dirty && !s.held {
		return 0, false
	}
	if !s.Dirty {
		return max(0, time.Duration((1-s.empty.TokensAt(now))*float64(emptyEvery))), true
	}
	if s.since.IsZero() {
		s.since = now
	}
	at := s.since.Add(reportFirst)
	if s.Last != nil {
		at = slices.MaxFunc([]time.Time{s.since.Add(reportCalm), s.sent.Add(reportEvery)}, time.Time.Compare)
		pause := reportEverySource * time.Duration(len(s.Last.Sources))
		if s.held {
			pause = max(pause, reportEvery)
		}
		if again := s.looked.Add(pause); again.After(at) && s.Last.ObservedGeneration == generation {
			at = again // a person who has changed the rule is told sooner
		}
	}
	return max(0, at.Sub(now)), true
}

// Send takes what the rule was summed up to, and says whether that is to be sent.
func (s *Sender) Send(report *Report, now time.Time) bool {
	s.Dirty, s.held, s.since, s.looked = false, false, time.Time{}, now
	if s.Last != nil && s.Last.ObservedGeneration != report.All.ObservedGeneration {
		s.ready, s.empty = false, nil
	}
	ready := meta.IsStatusConditionTrue(report.All.Conditions, conditionReady)
	if s.Last != nil {
		if sameReport(*s.Last, report.All) {
			return false
		}
		if (s.ready || !ready) && sameReport(*s.busy, report.Busy) {
			if s.empty == nil {
				s.empty = rate.NewLimiter(rate.Every(emptyEvery), emptyReports)
			}
			if s.held = !s.empty.AllowN(now, 1); s.held {
				return false
			}
		}
	}
	s.Last, s.busy, s.sent, s.ready = &report.All, &report.Busy, now, s.ready || ready
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
