// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roster-mesh/roster/agent/budget"
	"github.com/roster-mesh/roster/agent/loop"
	"github.com/roster-mesh/roster/kube"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/syncrules"
	"github.com/roster-mesh/roster/syncrules/engine"
	"github.com/roster-mesh/roster/syncrules/engine/problem"
)

// reports keeps what is known of each rule until its status is written: the report of the engine, and whether another
// cluster has a rule of the same name.
type reports struct {
	mu       sync.Mutex
	statuses map[string]v1alpha1.ResourceSyncRuleStatus
	clashes  map[string]string // rule → clusterID of the other rule's origin
}

func (r *reports) set(rule string, status v1alpha1.ResourceSyncRuleStatus) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.statuses == nil {
		r.statuses = map[string]v1alpha1.ResourceSyncRuleStatus{}
	}
	r.statuses[rule] = status
}

// clash records that another cluster publishes a rule of the same name, "" for none. It returns whether that is a
// change.
func (r *reports) clash(rule, origin string) (changed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.clashes[rule] == origin {
		return false
	}
	if r.clashes == nil {
		r.clashes = map[string]string{}
	}
	if r.clashes[rule] = origin; origin == "" {
		delete(r.clashes, rule)
	}
	return true
}

func (r *reports) read(rule string) (status v1alpha1.ResourceSyncRuleStatus, known bool, origin string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	status, known = r.statuses[rule]
	return status, known, r.clashes[rule]
}

func (r *reports) forget(rule string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.statuses, rule)
	delete(r.clashes, rule)
}

// reported is called by the engine, at most a few times a second for each rule.
func (r *Rules) reported(rule string, status engine.RuleReport) {
	r.reports.set(rule, status)
	r.statusChanged(rule)
}

// statusChanged has the status of a rule brought up to date.
func (r *Rules) statusChanged(rule string) {
	if have, err := r.options.Registry.Rules.Get(rule); err == nil && syncrules.Owner(have) == "" {
		r.ownStatuses.Add(rule)
		return
	}
	r.statuses.Add(rule)
}

// NameClash records that the cluster origin publishes a rule of the same name, which cannot be copied here; "" for
// none.
func (r *Rules) NameClash(rule, origin string) {
	if r.reports.clash(rule, origin) {
		r.statusChanged(rule)
	}
}

// writeStatus brings the status of a rule up to date. It writes only a change.
func (r *Rules) writeStatus(ctx context.Context, name string) error {
	have, err := r.options.Registry.Rules.Get(name)
	if err != nil {
		r.reports.forget(name)
		r.budget.Settle(name)
		return nil //nolint:nilerr // the rule is gone, and with it its status
	}
	author := syncrules.Owner(have)
	if author != "" && r.budget.StillWaits(author, name) {
		return loop.ErrWaits
	}
	update := have.DeepCopy()
	if r.fillStatus(update); equality.Semantic.DeepEqual(have.Status, update.Status) {
		r.budget.Settle(name)
		return nil
	}
	// Each version of a status is one of the whole rule in etcd, and its author decides on how large and how often that is.
	write := func() error {
		_, err := r.options.Client.Rules().ChangeStatus(ctx, have, update)
		return err
	}
	if author == "" {
		err = write()
	} else {
		err = r.budget.Write(author, name, func() int { return budget.SizeOf(update) }, write)
	}
	if errors.Is(err, loop.ErrWaits) {
		return err
	}
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("write status of rule %s: %w", name, err)
	}
	return nil
}

// fillStatus sets the status that a rule should have. It changes nothing if nothing is known.
func (r *Rules) fillStatus(rule *v1alpha1.ResourceSyncRule) {
	report, known, clash := r.reports.read(rule.Name)
	if !known && clash == "" {
		return
	}
	date := metav1.NewTime(r.options.Now())
	if known {
		applyReport(&rule.Status, report, date)
	}
	if ready := meta.FindStatusCondition(rule.Status.Conditions, engine.ConditionReady); ready != nil && ready.Reason == problem.ReasonPaused && isOrphan(rule) {
		ready.Reason, ready.Message = "Orphaned", orphanAdvice(rule)
	}
	if syncrules.Owner(rule) == "" && r.options.Edge(r.options.ClusterID) {
		meta.SetStatusCondition(&rule.Status.Conditions, metav1.Condition{
			Type: conditionShared, Status: metav1.ConditionUnknown, Reason: "Edge", ObservedGeneration: rule.Generation, LastTransitionTime: date,
			Message: "members say that this cluster is an edge of its group; in those that take it for one the rule is not in force: for these create it in a full member",
		})
	} else {
		meta.RemoveStatusCondition(&rule.Status.Conditions, conditionShared)
	}
	if clash == "" {
		meta.RemoveStatusCondition(&rule.Status.Conditions, conditionNameClash)
		return
	}
	meta.SetStatusCondition(&rule.Status.Conditions, metav1.Condition{
		Type: conditionNameClash, Status: metav1.ConditionTrue, Reason: "SameName", ObservedGeneration: rule.Generation, LastTransitionTime: date,
		Message: fmt.Sprintf("cluster %s has a rule of this name too; each keeps its own: rename one of them", r.options.Registry.Name(clash)),
	})
}

// conditionShared is unknown on a rule of this cluster's own while others may not have it in force, since they say that this one is an
// edge. What they take it for it does not know.
const conditionShared = "Shared"

// conditionNameClash is true on a rule of this cluster's own while another cluster publishes a rule of the same name.
const conditionNameClash = "NameClash"

// applyReport applies a report of the engine to a status. A lag that is not known, as after a restart, keeps the
// recorded one, so that it causes no write.
func applyReport(status *v1alpha1.ResourceSyncRuleStatus, report engine.RuleReport, date metav1.Time) {
	conditions, before := status.Conditions, status.Sources
	*status = *report.DeepCopy()
	status.Conditions = conditions
	for _, kind := range []string{engine.ConditionReady, engine.ConditionDrifted, engine.ConditionOrphans} {
		if c := meta.FindStatusCondition(report.Conditions, kind); c != nil {
			now := *c
			now.LastTransitionTime = date
			meta.SetStatusCondition(&status.Conditions, now)
		} else {
			meta.RemoveStatusCondition(&status.Conditions, kind)
		}
	}
	for i := range status.Sources {
		at := slices.IndexFunc(before, func(s v1alpha1.SourceStatus) bool { return s.ClusterID == status.Sources[i].ClusterID })
		if at >= 0 && status.Sources[i].Lag == nil {
			status.Sources[i].Lag = before[at].Lag
		}
	}
}

// event is called by the engine, seldom. For a rule that is deleted already, the event is recorded on this cluster's
// Cluster object, where users can still see it.
func (r *Rules) event(rule string, event engine.Event) {
	kind := kube.EventNormal
	if event.Warning {
		kind = kube.EventWarning
	}
	if object, err := r.options.Registry.Rules.Get(rule); err == nil {
		r.options.Events.Event(r.options.Client.Rules().Kind(), object, kind, event.Reason, event.Message)
		return
	}
	r.options.Log.Info("an event of a rule that was deleted", "rule", rule, "reason", event.Reason, "message", event.Message)
	if own := r.options.Own(); own != nil {
		r.options.Events.Event(r.options.Client.Clusters().Kind(), own, kind, event.Reason, "rule "+rule+", which was deleted: "+event.Message)
	}
}
