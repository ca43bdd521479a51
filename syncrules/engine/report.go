// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"maps"
	"slices"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/syncrules"
	"github.com/roster-mesh/roster/syncrules/engine/metrics"
	"github.com/roster-mesh/roster/syncrules/engine/problem"
	"github.com/roster-mesh/roster/syncrules/engine/tally"
)

const (
	// ownReports is how many reports of this cluster's own rules are sent a second, all together, after ownReportsAtOnce: each is a write. Those of
	// others' rules are charged to their authors when they are written.
	ownReports, ownReportsAtOnce = 16, 1024
	// slowFor is how long a rule says that copies follow at a slower pace.
	slowFor = 10 * time.Second

	// ConditionReady says whether a rule does what it says here.
	ConditionReady = "Ready"
	// ConditionOrphans is there while copies that the rule made are no longer maintained.
	ConditionOrphans = "Orphans"
	// ConditionDrifted is there for rules that only look, and says whether something is not as they would have it.
	ConditionDrifted = "Drifted"
)

// RuleReport is what became of a rule here. LastTransitionTime of the conditions is left to who writes them and
// knows what was there.
type RuleReport = v1alpha1.ResourceSyncRuleStatus

// reporter is what the one goroutine that reports has to tell, beside what each rule's Sender has.
type reporter struct {
	wake   chan struct{} // as supervisor.wake
	events tally.Events
	own    *rate.Limiter // reports of this cluster's own rules
}

func newReporter() reporter {
	return reporter{wake: make(chan struct{}, 1), own: rate.NewLimiter(ownReports, ownReportsAtOnce)}
}

// report sends what changed, coalesced, until ctx ends. It keeps no timer while nothing does.
func (e *Engine) report(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-e.reporter.wake:
		case <-timer.C:
		}
		due, next := e.dueReports(time.Now())
		for _, name := range slices.Sorted(maps.Keys(due)) {
			e.o.Report(name, due[name])
		}
		events, later := e.dueEvents(time.Now())
		for _, event := range events {
			e.o.Event(event.Rule, event.Event)
		}
		if next == 0 || later > 0 && later < next {
			next = later
		}
		if next > 0 {
			timer.Reset(next)
		}
	}
}

// dueReports are the reports to send now; next is when to look again, 0 for when something changes.
func (e *Engine) dueReports(now time.Time) (due map[string]RuleReport, next time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	due = map[string]RuleReport{}
	if !e.supervisor.ready {
		return due, 0
	}
	for name, r := range e.rules.byName {
		s := &r.sender
		if until := r.tally.SlowUntil; !until.IsZero() {
			if wait := until.Sub(now); wait <= 0 {
				r.tally.Slow, r.tally.SlowUntil, s.Dirty = "", time.Time{}, true
			} else if next == 0 || wait < next {
				next = wait
			}
		}
		wait, some := s.Wait(r.gen, now)
		if some && wait == 0 && r.author == "" && s.Last != nil && s.Last.ObservedGeneration == r.gen { // whoever changed it is told at once
			wait = max(0, time.Duration((1-e.reporter.own.TokensAt(now))/ownReports*float64(time.Second)))
		}
		if some && wait == 0 {
			if report := e.reportOfLocked(r); s.Send(&report, now) {
				due[name] = report.All
				if r.author == "" {
					e.reporter.own.AllowN(now, 1)
				}
			}
			wait, some = s.Wait(r.gen, now)
		}
		if some && (next == 0 || wait < next) {
			next = wait
		}
	}
	return due, next
}

// reportOfLocked sums up a rule.
func (e *Engine) reportOfLocked(r *rule) tally.Report {
	var all, busy []v1alpha1.SourceStatus
	var troubles, unreached, ofBusy []trouble
	unclear := "" // of what it is not known whether it is a source
	for _, id := range e.clusters.ids {
		p := e.clusters.peers[id]
		if p.Left || r.compiled == nil {
			continue
		}
		unknown := p.Source == nil && r.tally.Sources[id] == nil
		if unknown && len(unreached) == v1alpha1.MaxAwaySources {
			continue // of which there may be thousands that somebody invents
		}
		rel, watch, why := e.relateLocked(r, p)
		if rel == syncrules.Unclear && p.Source != nil && !p.FeaturesKnown && r.compiled.HasFeatures() {
			unclear = "; " + why
		}
		if !watch {
			continue
		}
		status, bad := e.sourceStatusLocked(r, p)
		all = append(all, status)
		switch {
		case bad == nil:
		case unknown:
			unreached = append(unreached, *bad)
		default:
			troubles = append(troubles, *bad)
		}
		if !tally.Empty(status) {
			busy = append(busy, status)
			if bad != nil {
				ofBusy = append(ofBusy, *bad)
			}
		}
	}
	out := tally.Report{Busy: e.statusLocked(r, busy, ofBusy, ""), All: e.statusLocked(r, all, append(troubles, unreached...), unclear)} // one that somebody invents hides nothing of the others
	r.sender.WasReady = out.All.Conditions[0].Status == metav1.ConditionTrue
	return out
}

// statusLocked is the status of a rule that has these sources, of which some are in trouble. That all is well is said with what is unclear.
func (e *Engine) statusLocked(r *rule, sources []v1alpha1.SourceStatus, troubles []trouble, unclear string) RuleReport {
	t := &r.tally
	out := RuleReport{ObservedGeneration: r.gen, Matched: t.Matched, Synced: t.Synced, Failed: t.Failed, Conflicts: t.Conflicts, Drifted: t.Drift(), Sources: sources}
	out.ConfirmedDeletions = int32(r.guard.Confirmed())
	for _, text := range t.Texts {
		out.LastErrors = append(out.LastErrors, text.Text)
	}
	add := func(kind string, c metav1.Condition) {
		c.Type, c.ObservedGeneration, c.Message = kind, r.gen, problem.Bounded(c.Message, problem.MaxMessage)
		out.Conditions = append(out.Conditions, c)
	}
	ready := e.readyConditionLocked(r, len(sources), troubles)
	if ready.Reason == problem.ReasonNoSource || ready.Reason == problem.ReasonSynced {
		ready.Message += unclear
	}
	add(ConditionReady, ready)
	if r.observes() != "" {
		add(ConditionDrifted, t.DriftCondition(ready.Status == metav1.ConditionTrue))
	}
	if c, some := e.local.copies.OrphansCondition(r.name); some {
		add(ConditionOrphans, c)
	}
	return out
}

// ruleSums adds up the rules of each label. Those that share one are the last in the order of their names.
func (e *Engine) ruleSums() map[string]metrics.RuleSum {
	e.mu.Lock()
	defer e.mu.Unlock()
	out := make(map[string]metrics.RuleSum, min(len(e.rules.byName), metrics.MaxLabels+1))
	for i, name := range slices.Sorted(maps.Keys(e.rules.byName)) {
		r := e.rules.byName[name]
		if i >= metrics.MaxLabels {
			name = metrics.OtherRules
		}
		sum := out[name]
		sum.Rules++
		if s := r.sender.Last; s != nil {
			switch c := meta.FindStatusCondition(s.Conditions, ConditionReady); {
			case c == nil:
			case c.Status == metav1.ConditionTrue:
				sum.Ready++
			case c.Reason == problem.ReasonPaused:
				sum.Paused++
			}
		}
		for i, n := range [...]int32{r.tally.Matched, r.tally.Synced, r.tally.Failed, r.tally.Conflicts, r.tally.Drift()} {
			sum.Counts[i] += n
		}
		out[name] = sum
	}
	return out
}
