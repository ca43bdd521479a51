// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/syncrules"
)

const (
	// reportEvery is how often a rule is reported at most, reportFirst how long the first report waits
	// for the first results.
	reportEvery = 2 * time.Second
	reportFirst = 100 * time.Millisecond
	// reportCalm is how long a change must last to be worth a report: a watch that lists again is not.
	reportCalm = 500 * time.Millisecond
	// ConditionReady is the type of the one condition.
	ConditionReady = "Ready"
)

// RuleReport is what became of a rule here.
//
// ObservedGeneration is the generation by which all copies of the rule were judged; the engine reads it back at
// the next start. The conditions carry the generation that they are about. LastTransitionTime of the
// conditions is left to who writes them and knows what was there.
type RuleReport = v1alpha1.ResourceSyncRuleStatus

// sender is the state of a rule's reports.
type sender struct {
	dirty    bool
	since    time.Time // when the reporter first saw it dirty
	sent     time.Time
	last     *RuleReport
	observed int64
	wasReady bool // under the present generation
}

// report sends what changed, coalesced, until ctx ends. It keeps no timer while nothing does.
func (e *Engine) report(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-e.reportWake:
		case <-timer.C:
		}
		due, next := e.dueReports(time.Now())
		for _, name := range slices.Sorted(maps.Keys(due)) {
			e.o.Report(name, due[name])
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
	if !e.ready {
		return due, 0
	}
	for name, r := range e.rules {
		s := &r.sender
		if !s.dirty {
			continue
		}
		if s.since.IsZero() {
			s.since = now
		}
		at := s.since.Add(reportFirst)
		if s.last != nil {
			at = s.since.Add(reportCalm)
			if next := s.sent.Add(reportEvery); next.After(at) {
				at = next
			}
		}
		if wait := at.Sub(now); wait > 0 {
			if next == 0 || wait < next {
				next = wait
			}
			continue
		}
		s.dirty, s.since = false, time.Time{}
		report := e.reportOf(r)
		if s.last == nil || !sameReport(*s.last, report) {
			s.last, s.sent = &report, now
			due[name] = report
		}
	}
	return due, next
}

// sameReport compares but for the lag, which alone is not worth a write.
func sameReport(a, b RuleReport) bool {
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

// reportOf sums up a rule. mu is held.
func (e *Engine) reportOf(r *rule) RuleReport {
	t := &r.tally
	out := RuleReport{Matched: t.matched, Synced: t.synced, Failed: t.failed, Conflicts: t.conflicts}
	if e.allJudged(r) {
		r.sender.observed = r.gen
	}
	out.ObservedGeneration = r.sender.observed
	k := e.kinds[r.kind()]
	var troubles []trouble
	asked := 0
	for _, id := range e.peerIDs {
		p := e.peers[id]
		if p.Left || r.compiled == nil {
			continue
		}
		if _, watch, _ := e.relate(k, r, p); !watch {
			continue
		}
		asked++
		status, bad := e.sourceStatus(r, p)
		if bad != nil {
			troubles = append(troubles, *bad)
		}
		out.Sources = append(out.Sources, status)
	}
	for _, text := range t.texts {
		out.LastErrors = append(out.LastErrors, text.text)
	}
	c := e.readyCondition(k, r, asked, troubles)
	c.Type, c.ObservedGeneration, c.Message = ConditionReady, r.gen, oneLine(c.Message)
	r.sender.wasReady = c.Status == metav1.ConditionTrue
	out.Conditions = []metav1.Condition{c}
	return out
}

// allJudged says that no copy of the rule awaits the judgement of its present matches. mu is held.
func (e *Engine) allJudged(r *rule) bool {
	if r.compiled == nil || !e.localsComplete(r) || len(r.edited) > 0 {
		return false
	}
	if r.judged {
		return true
	}
	k := e.kinds[r.kind()]
	set := e.copies[r.kind()]
	if set == nil {
		return true
	}
	for owner, copies := range set.by {
		if r.isJudged(owner) || !anyRuled(copies, r.name) {
			continue
		}
		p := e.peers[owner]
		if p == nil {
			return false
		}
		if p.Left {
			continue
		}
		if rel, _, _ := e.relate(k, r, p); rel != asksNot {
			return false
		}
	}
	return true
}

func anyRuled(copies map[place]*copied, rule string) bool {
	for _, c := range copies {
		if c.ruled(rule) {
			return true
		}
	}
	return false
}

// trouble is why a source is not watched.
type trouble struct {
	reason, text string
	starting     bool
}

// sourceStatus says how a rule's source stands. mu is held.
func (e *Engine) sourceStatus(r *rule, p *peer) (v1alpha1.SourceStatus, *trouble) {
	out := v1alpha1.SourceStatus{ClusterID: types.UID(p.ClusterID), Cluster: p.Name, Watching: true}
	if s := r.tally.sources[p.ClusterID]; s != nil {
		out.Matched, out.Synced, out.Failed = s.matched, s.synced, s.failed
		if s.lag > 0 {
			out.Lag = &metav1.Duration{Duration: s.lag.Round(time.Millisecond)}
		}
	}
	if p.Source == nil {
		out.Watching, out.Message = false, p.Why
		if out.Message == "" {
			out.Message = "not connected"
		}
		return out, &trouble{reason: ReasonSourceUnreachable, text: "cluster " + p.name() + ": " + out.Message}
	}
	for _, s := range r.scopes {
		v := e.views[p.ClusterID][s]
		if v != nil && v.live {
			continue
		}
		out.Watching = false
		if v == nil || v.err == nil {
			out.Message = "the first list is on its way"
			return out, &trouble{starting: true}
		}
		t := e.sourceTrouble(p.name(), s, v.err)
		out.Message = t.text
		return out, &t
	}
	return out, nil
}

func (e *Engine) sourceTrouble(cluster string, s Scope, err error) trouble {
	text := "cluster " + cluster + ": " + oneLine(err.Error())
	if errors.Is(err, ErrTooMuch) {
		return trouble{reason: ReasonSourceTooLarge, text: text + "; its copies stay as they are; narrow what the rule matches, or raise the limit"}
	}
	switch e.classify(err) {
	case classForbidden:
		where := "in all namespaces"
		if s.Namespace != "" {
			where = "in namespace " + s.Namespace
		}
		return trouble{reason: ReasonSourcePermission, text: fmt.Sprintf(
			"cluster %s does not let this one get, list and watch %s %s; add a ClusterRole for it there with the label %s=true",
			cluster, s.GVK.GroupKind(), where, v1alpha1.LabelReaderAggregated)}
	case classKindUnknown:
		return trouble{reason: ReasonSourceKindUnknown, text: fmt.Sprintf("cluster %s does not serve %s; install its CRD there", cluster, s.GVK)}
	case classUnreachable, classOther:
	}
	return trouble{reason: ReasonSourceUnreachable, text: text + "; its copies stay as they are"}
}

// readyCondition is the condition: the first thing that a user would have to do, if any. mu is held.
func (e *Engine) readyCondition(k *kind, r *rule, asked int, troubles []trouble) metav1.Condition {
	if c, ok := e.ruleCondition(k, r); ok {
		return c
	}
	if c, ok := e.localCondition(r); ok {
		return c
	}
	starting := 0
	for _, t := range troubles {
		if t.starting {
			starting++
			continue
		}
		return no(t.reason, t.text)
	}
	if c, ok := objectCondition(&r.tally); ok {
		return c
	}
	t := &r.tally
	switch {
	case asked == 0:
		return yes(ReasonNoSource, "no other cluster is a source of this rule now")
	case starting > 0 && !r.sender.wasReady:
		return metav1.Condition{
			Status: metav1.ConditionUnknown, Reason: ReasonStarting,
			Message: fmt.Sprintf("the first list of %d of %d sources is on its way", starting, asked),
		}
	case !r.sender.wasReady && (e.pendings[r.kind()] > 0 || t.tried > 0):
		return no(ReasonProgressing, fmt.Sprintf("%d of %d copies are as they should be so far", t.synced, t.matched))
	}
	return yes(ReasonSynced, fmt.Sprintf("all copies are as they should be (%d) or left alone on purpose (%d)", t.synced, t.held))
}

func yes(reason, message string) metav1.Condition {
	return metav1.Condition{Status: metav1.ConditionTrue, Reason: reason, Message: message}
}

func no(reason, message string) metav1.Condition {
	return metav1.Condition{Status: metav1.ConditionFalse, Reason: reason, Message: message}
}

// ruleCondition is about the rule itself.
func (e *Engine) ruleCondition(k *kind, r *rule) (metav1.Condition, bool) {
	switch {
	case r.err != nil && syncrules.Unsupported(r.err):
		return no(ReasonUnsupportedField, r.err.Error()), true
	case errors.Is(r.err, syncrules.ErrConsent):
		return no(ReasonConsentRequired, r.err.Error()), true
	case r.err != nil:
		return no(ReasonInvalidRule, r.err.Error()), true
	case k.clashes(r):
		return no(ReasonVersionConflict, fmt.Sprintf("another rule about %s asks for version %s; use one version for all", r.kind(), k.gvk.Version)), true
	case r.compiled.HasTargets() && e.cluster != nil && !r.compiled.Targets(e.cluster.Labels):
		return yes(ReasonNotTargeted, "spec.targets leaves this cluster out"), true
	case r.compiled.Paused():
		return no(ReasonPaused, "spec.paused is set: all copies stay as they are"), true
	case r.guarded:
		return no(ReasonDeletionGuard, fmt.Sprintf(
			"%d of %d copies would be deleted because their sources are missing from a list, which may be a fault there; nothing is changed until they are back, or until you confirm with: kubectl annotate resourcesyncrule %s %s=%d",
			r.absent, r.copies, r.name, syncrules.AnnotationConfirmDeletions, r.absent)), true
	}
	return metav1.Condition{}, false
}

// localCondition is about the local API server.
func (e *Engine) localCondition(r *rule) (metav1.Condition, bool) {
	for _, w := range e.locals {
		if w.err == nil || w.scope.GVK.GroupKind() != r.kind() {
			continue
		}
		switch e.classify(w.err) {
		case classForbidden:
			return no(ReasonMissingPermission, permissionText(r)), true
		case classKindUnknown:
			return no(ReasonKindUnknown, fmt.Sprintf("%s is not served here; install its CRD", w.scope.GVK)), true
		case classUnreachable, classOther:
		}
		return no(ReasonLocalUnreachable, "the copies here cannot be watched: "+w.err.Error()), true
	}
	return metav1.Condition{}, false
}

func permissionText(r *rule) string {
	return fmt.Sprintf("the agent may not list, watch, create, update and delete %s in %s; add a ClusterRole for it here with the label %s=true",
		r.kind(), r.where(), v1alpha1.LabelControllerAggregated)
}

// where names the namespaces of the rule.
func (r *rule) where() string {
	var names []string
	for _, s := range r.scopes {
		if s.Namespace == "" {
			return "all namespaces"
		}
		names = append(names, s.Namespace)
	}
	return "namespace " + strings.Join(names, ", ")
}

// objectCondition is about single copies: the reason that most of them share, with an example.
func objectCondition(t *tally) (metav1.Condition, bool) {
	reason, n := "", int32(0)
	for _, name := range slices.Sorted(maps.Keys(t.reasons)) {
		if t.reasons[name] > n {
			reason, n = name, t.reasons[name]
		}
	}
	if reason == "" {
		return metav1.Condition{}, false
	}
	message := fmt.Sprintf("%d of %d", n, t.matched)
	if i := slices.IndexFunc(t.texts, func(x keyText) bool { return x.reason == reason }); i >= 0 {
		message += ": " + t.texts[i].text
	}
	switch reason {
	case ReasonNamespaceMissing:
		message += "; create it, the copies follow at once"
	case ReasonMissingPermission:
		message += "; add a ClusterRole here with the label " + v1alpha1.LabelControllerAggregated + "=true"
	}
	return no(reason, message), true
}
