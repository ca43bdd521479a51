// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/roster-mesh/roster/agent/payload"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/replica"
	"github.com/roster-mesh/roster/syncrules"
)

// unsettled are rules, by name, with their owners ("" for this cluster), that are gone or older and that the engine
// still has in their last state. mu is held from reading a rule until the engine has it, or the engine could get two
// states in the wrong order.
type unsettled struct {
	mu     sync.Mutex
	owners map[string]string
	passed map[string]passed // what the engine has, by name
}

// passed is a rule as the engine has it, and why it is refused, "" if it is in force.
type passed struct {
	rule    *v1alpha1.ResourceSyncRule
	refused string
}

func (u *unsettled) passLocked(rule *v1alpha1.ResourceSyncRule, refused error) {
	if u.passed == nil {
		u.passed = map[string]passed{}
	}
	u.passed[rule.Name] = passed{rule, text(refused)}
}

func (u *unsettled) addLocked(rule *v1alpha1.ResourceSyncRule) {
	if u.owners == nil {
		u.owners = map[string]string{}
	}
	u.owners[rule.Name] = syncrules.Owner(rule)
}

// RuleChanged passes a changed rule to the engine, if the change is certain. The lister has the change already. was is
// the previous state, nil for a rule that is new or was deleted; now is the present state, or the last one of a rule
// that was deleted.
func (r *Rules) RuleChanged(was, now *v1alpha1.ResourceSyncRule) {
	r.unsettled.mu.Lock()
	defer r.unsettled.mu.Unlock()
	current, err := r.options.Registry.Rules.Get(now.Name)
	own := syncrules.Owner(now) == ""
	if err != nil || was != nil && older(now, was) || own && r.options.Frozen() {
		r.unsettled.addLocked(now) // until Settle
		return
	}
	delete(r.unsettled.owners, now.Name)
	r.setRuleLocked(current)
}

// older reports whether now is an older version than was. An API server that was not restored never has that.
func older(now, was metav1.Object) bool {
	order, err := resourceversion.CompareResourceVersion(now.GetResourceVersion(), was.GetResourceVersion())
	return err == nil && order < 0
}

// IsUnsettled reports whether a rule of this cluster's own is gone or older, and the engine still has its last state.
func (r *Rules) IsUnsettled(name string) bool {
	r.unsettled.mu.Lock()
	defer r.unsettled.mu.Unlock()
	owner, waits := r.unsettled.owners[name]
	return waits && owner == ""
}

// SettleAll settles every rule of this cluster's own, after a restore was confirmed.
func (r *Rules) SettleAll() {
	r.unsettled.mu.Lock()
	defer r.unsettled.mu.Unlock()
	for name := range r.unsettled.owners {
		r.settleLocked(name, true)
	}
}

// Settle passes a rule, or its deletion, to the engine once that is certain. For this cluster's own rules (own) the
// publisher calls it: the API server is the authority, unless it went back in time. For copies the importer calls it: a
// copy that is missing will come back as long as a member publishes the rule.
func (r *Rules) Settle(name string, own bool) {
	r.unsettled.mu.Lock()
	defer r.unsettled.mu.Unlock()
	r.settleLocked(name, own)
}

func (r *Rules) settleLocked(name string, own bool) {
	owner, waits := r.unsettled.owners[name]
	if !waits || own != (owner == "") {
		return
	}
	current, err := r.options.Registry.Rules.Get(name)
	if own && r.options.Frozen() { // asked after the rule was read: so the rule is not from after a restore
		return
	}
	if err == nil {
		if !own && r.importPending(current, owner) {
			return
		}
		delete(r.unsettled.owners, name)
		r.setRuleLocked(current)
		return
	}
	if slices.ContainsFunc(r.options.Replica.Find(payload.RuleKey(name)), func(e replica.Entry) bool {
		return e.Origin != r.options.ClusterID && e.Status == replica.Live
	}) {
		return // the importer puts it back
	}
	delete(r.unsettled.owners, name)
	delete(r.unsettled.passed, name)
	r.engine.DeleteRule(name)
}

// importPending reports whether a copy differs from what its owner publishes, so that the importer is about to write
// it.
func (r *Rules) importPending(current *v1alpha1.ResourceSyncRule, owner string) bool {
	e, ok := r.options.Replica.Lookup(payload.RuleKey(current.Name), owner)
	if !ok {
		return false
	}
	published, err := payload.DecodeRule(owner, current.Name, e.Payload)
	return err == nil && !equality.Semantic.DeepEqual(published.Spec, current.Spec)
}
