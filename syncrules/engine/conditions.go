// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/syncrules/consent"
	"github.com/roster-mesh/roster/syncrules/engine/bounds"
	"github.com/roster-mesh/roster/syncrules/engine/namespaces"
	"github.com/roster-mesh/roster/syncrules/engine/place"
	"github.com/roster-mesh/roster/syncrules/engine/problem"
	"github.com/roster-mesh/roster/syncrules/engine/rights"
	"github.com/roster-mesh/roster/syncrules/skew"
	"github.com/roster-mesh/roster/syncrules/where"
)

// readyConditionLocked is the condition: the first thing that a user would have to do, if any.
func (e *Engine) readyConditionLocked(r *rule, asked int, troubles []trouble) metav1.Condition {
	if c, ok := e.ruleConditionLocked(r); ok {
		return c
	}
	if c, ok := e.localConditionLocked(r); ok {
		return c
	}
	if text := e.lacksHereLocked(r); text != "" && r.observes() == "" {
		return problem.No(problem.ReasonMissingPermission, text)
	}
	starting := 0
	for _, t := range troubles {
		if t.starting {
			starting++
			continue
		}
		return problem.No(t.reason, t.text)
	}
	if c, ok := e.objectConditionLocked(r); ok {
		return c
	}
	t := &r.tally
	switch {
	case asked == 0:
		return problem.Yes(problem.ReasonNoSource, "no other cluster is a source of this rule now")
	case starting > 0 && !r.sender.WasReady:
		return metav1.Condition{
			Status: metav1.ConditionUnknown, Reason: problem.ReasonStarting,
			Message: fmt.Sprintf("the first list of %d of %d sources is on its way", starting, asked),
		}
	case !r.sender.WasReady && (e.supervisor.rules[r.name] || e.queue.PendingLocked(r.kinds) || t.Tried > 0):
		return problem.No(problem.ReasonProgressing, fmt.Sprintf("%d of %d copies are as they should be so far", t.Synced, t.Matched))
	}
	if t.Slow != "" {
		return problem.Yes(problem.ReasonSlowed, t.Slow)
	}
	if r.observes() != "" {
		return problem.Yes(problem.ReasonObserving, fmt.Sprintf("nothing is written (spec.mode); objects as the rule would have them: %d, others: %d", t.Synced, t.Drift()))
	}
	return problem.Yes(problem.ReasonSynced, fmt.Sprintf("all copies are as they should be (%d) or left alone on purpose (%d)", t.Synced, t.Held))
}

// ruleConditionLocked is about the rule itself.
func (e *Engine) ruleConditionLocked(r *rule) (metav1.Condition, bool) {
	switch {
	case errors.Is(r.err, consent.ErrNeeded):
		return problem.No(problem.ReasonConsentRequired, r.err.Error()), true
	case errors.Is(r.err, skew.ErrNotUnderstood):
		return problem.No(problem.ReasonNotUnderstood, r.err.Error()), true
	case r.err != nil:
		return problem.No(problem.ReasonInvalidRule, r.err.Error()), true
	case r.surplus != "":
		return problem.No(problem.ReasonTooManyRules, r.surplus), true
	case r.clash != "":
		return problem.No(problem.ReasonVersionConflict, r.clash), true
	case r.excluded:
		return problem.Yes(problem.ReasonNotTargeted, "spec.targets leaves this cluster out"), true
	case e.clusters.local != nil && r.compiled.Targets(e.clusters.local) == where.Unknown:
		_, v := r.compiled.ExplainTargets(e.clusters.local)
		return problem.No(problem.ReasonTargetUnknown, v.String()+": all copies stay as they are"), true
	case r.compiled.Paused():
		return problem.No(problem.ReasonPaused, "spec.paused is set: all copies stay as they are"), true
	case r.guard.Stopped() && r.observes() == "":
		return problem.No(problem.ReasonDeletionGuard, r.guard.Text(r.name, e.clusterNameLocked)), true
	}
	return metav1.Condition{}, false
}

// localConditionLocked is about the local API server.
func (e *Engine) localConditionLocked(r *rule) (metav1.Condition, bool) {
	if live, err := e.namespaces.KnownLocked(); !live && r.fanOut() != nil {
		return namespaces.Condition(err, e.errors()), true
	}
	for _, s := range r.targets {
		err := e.localTroubleLocked(s)
		if err == nil {
			continue
		}
		switch e.errors().Class(err) {
		case problem.Forbidden:
			return problem.No(problem.ReasonMissingPermission, e.permissionTextLocked(r, s.GVK)), true
		case problem.KindUnknown:
			return problem.No(problem.ReasonKindUnknown, fmt.Sprintf("%s is not served here; install its CRD", s.GVK)), true
		case problem.Unreachable, problem.Restored, problem.Other:
		}
		return problem.No(problem.ReasonLocalUnreachable, "the copies here cannot be watched: "+err.Error()), true
	}
	return metav1.Condition{}, false
}

// localTroubleLocked is why the copies in a scope of a rule cannot be watched, nil where they can. Watches of other scopes of
// the kind say nothing about it: one that no rule wants any more stays open until what is in it is known.
func (e *Engine) localTroubleLocked(s Scope) (err error) {
	for _, namespace := range [...]string{s.Namespace, ""} {
		switch w := e.local.watches[place.Copies(s.GVK, namespace)]; {
		case w == nil:
		case w.err == nil:
			return nil
		default:
			err = w.err
		}
	}
	return err
}

// permissionTextLocked is about rights that an API server says are missing here; what exactly, a review tells.
func (e *Engine) permissionTextLocked(r *rule, gvk schema.GroupVersionKind) string {
	e.suspectLocked(rights.Key{GVK: gvk}, false)
	if text := e.lacksHereLocked(r); text != "" {
		return text
	}
	return fmt.Sprintf("the agent may not list, watch, create, update and delete %s in %s; %s",
		gvk.GroupKind(), place.Namespaces(r.targets), rights.Hint(gvk, "here", v1alpha1.LabelControllerAggregated))
}

// objectConditionLocked is about single copies: the reason that most of them share, with an example, and what to do.
func (e *Engine) objectConditionLocked(r *rule) (metav1.Condition, bool) {
	reason, message := r.tally.Worst()
	if reason == "" {
		return metav1.Condition{}, false
	}
	if next := e.nextStepLocked(r, reason); next != "" {
		message += "; " + next
	}
	return problem.No(reason, message), true
}

// nextStepLocked says what to do about the copies that share a reason, "" where their text says it.
func (e *Engine) nextStepLocked(r *rule, reason string) string {
	if reason == problem.ReasonMissingPermission {
		if text := e.lacksHereLocked(r); text != "" {
			return text
		}
	}
	return problem.NextStep(reason)
}

// trouble is why a source is not watched.
type trouble struct {
	reason, text string
	starting     bool
}

// sourceStatusLocked says how a rule's source stands.
func (e *Engine) sourceStatusLocked(r *rule, p *peer) (v1alpha1.SourceStatus, *trouble) {
	out := v1alpha1.SourceStatus{ClusterID: types.UID(p.ClusterID), Cluster: p.Name, Watching: true}
	if s := r.tally.Sources[p.ClusterID]; s != nil {
		out.Matched, out.Synced, out.Failed = s.Matched, s.Synced, s.Failed
		if s.Lag > 0 {
			out.Lag = &metav1.Duration{Duration: s.Lag.Round(time.Millisecond)}
		}
	}
	if p.Refused != "" {
		out.Watching, out.Message = false, p.Refused
		return out, &trouble{reason: problem.ReasonConsentRequired, text: p.Refused}
	}
	if p.Source == nil {
		out.Watching, out.Message = false, p.Why
		if out.Message == "" {
			out.Message = "not connected"
		}
		return out, &trouble{reason: problem.ReasonSourceUnreachable, text: "cluster " + p.name() + ": " + out.Message}
	}
	if e.endedLocked(r, p.ClusterID) {
		t := e.sourceTroubleLocked(p.name(), p.ClusterID, Scope{}, e.o.TooManyPlaces(e.clusterNameLocked(e.authorOf(r)), p.name()))
		out.Watching, out.Message = false, t.text
		return out, &t
	}
	for _, s := range r.scopes {
		v := e.views.byPeer[p.ClusterID][s]
		if v != nil && v.live && v.judgedBy(r) {
			continue
		}
		out.Watching = false
		if v == nil && e.views.watches.LeavesOut(p.ClusterID, s) {
			t := e.sourceTroubleLocked(p.name(), p.ClusterID, s, e.o.TooManyWatches(e.clusterNameLocked(cmp.Or(r.author, e.o.LocalClusterID))))
			out.Message = t.text
			return out, &t
		}
		if v == nil || v.err == nil {
			out.Message = "the first list is on its way"
			return out, &trouble{starting: true}
		}
		t := e.sourceTroubleLocked(p.name(), p.ClusterID, s, v.err)
		out.Message = t.text
		return out, &t
	}
	if text := e.namespaces.TooManyLocked(r.name, p.ClusterID); text != "" {
		out.Message = "cluster " + p.name() + ": " + text
		return out, &trouble{reason: problem.ReasonTooManyCopies, text: out.Message}
	}
	if r.guard.StoppedOf(p.ClusterID) && r.observes() == "" {
		out.Message = "its copies stay as they are: too many would be deleted, and the deletion guard waits for a confirmation"
	}
	return out, nil
}

func (e *Engine) sourceTroubleLocked(cluster, peer string, s Scope, err error) trouble {
	text := "cluster " + cluster + ": " + problem.OneLine(err.Error())
	if errors.Is(err, bounds.ErrTooMuch) {
		return trouble{reason: problem.ReasonSourceTooLarge, text: text + "; its copies stay as they are; narrow what the rule matches, or raise the memory limit of the agent here"}
	}
	switch e.errors().Class(err) {
	case problem.Forbidden:
		if text := e.lacksThereLocked(cluster, peer, s); text != "" {
			return trouble{reason: problem.ReasonSourcePermission, text: text}
		}
		return trouble{reason: problem.ReasonSourcePermission, text: fmt.Sprintf("cluster %s does not let this one get, list and watch %s in %s; %s",
			cluster, s.GVK.GroupKind(), cmp.Or(s.Namespace, "all namespaces"), rights.Hint(s.GVK, "there", v1alpha1.LabelReaderAggregated))}
	case problem.KindUnknown:
		return trouble{reason: problem.ReasonSourceKindUnknown, text: fmt.Sprintf("cluster %s does not serve %s; install its CRD there", cluster, s.GVK)}
	case problem.Restored:
		return trouble{reason: problem.ReasonSourceRestored, text: fmt.Sprintf(
			"cluster %s went back in time, as after a restore; its copies stay as they are until this is run there: %s",
			cluster, v1alpha1.CommandConfirmRestore)}
	case problem.Unreachable, problem.Other:
	}
	return trouble{reason: problem.ReasonSourceUnreachable, text: text + "; its copies stay as they are"}
}
