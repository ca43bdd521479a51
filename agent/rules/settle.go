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

// unsettled are the rules, with their owners ("" for this cluster), of which the engine was not told yet that they are
// gone or older. The lock is held from reading a rule to telling the engine of it, or what was read first might be told
// last.
type unsettled struct {
	telling sync.Mutex
	owners  map[string]string
}

func (u *unsettled) addLocked(rule *v1alpha1.ResourceSyncRule) {
	if u.owners == nil {
		u.owners = map[string]string{}
	}
	u.owners[rule.Name] = syncrules.Owner(rule)
}

// RuleChanged tells the engine of a rule that changed, if that is certain. The lister has the change already; was is what
// was there, nil for a rule that is new or gone, and now what is there, or of one that is gone its last state.
func (r *Rules) RuleChanged(was, now *v1alpha1.ResourceSyncRule) {
	r.unsettled.telling.Lock()
	defer r.unsettled.telling.Unlock()
	current, err := r.options.Registry.Rules.Get(now.Name)
	own := syncrules.Owner(now) == ""
	if err != nil || was != nil && older(now, was) || own && r.options.Frozen() {
		r.unsettled.addLocked(now) // the engine is told when it is certain: Settle
		return
	}
	delete(r.unsettled.owners, now.Name)
	r.engine.SetRule(inForce(current))
}

// older says that an API server which only goes forward could not follow was with now.
func older(now, was metav1.Object) bool {
	order, err := resourceversion.CompareResourceVersion(now.GetResourceVersion(), was.GetResourceVersion())
	return err == nil && order < 0
}

// Awaits says whether a rule of this cluster's own is gone or older, and the engine was not told.
func (r *Rules) Awaits(name string) bool {
	r.unsettled.telling.Lock()
	defer r.unsettled.telling.Unlock()
	owner, waits := r.unsettled.owners[name]
	return waits && owner == ""
}

// SettleAll settles every rule of this cluster's own, once a restore was confirmed.
func (r *Rules) SettleAll() {
	r.unsettled.telling.Lock()
	defer r.unsettled.telling.Unlock()
	for name := range r.unsettled.owners {
		r.settleLocked(name, true)
	}
}

// Settle tells the engine that a rule is gone, or what it is, once that is certain. Of a rule of this cluster's
// own the API server says so, unless that went back in time: the publisher, which finds that out, asks about them (own).
// A copy is on its way back while a member publishes the rule: the importer asks about those.
func (r *Rules) Settle(name string, own bool) {
	r.unsettled.telling.Lock()
	defer r.unsettled.telling.Unlock()
	r.settleLocked(name, own)
}

func (r *Rules) settleLocked(name string, own bool) {
	owner, waits := r.unsettled.owners[name]
	if !waits || own != (owner == "") {
		return
	}
	current, err := r.options.Registry.Rules.Get(name)
	if own && r.options.Frozen() { // asked after the rule was read, which is then none that a restore has brought
		return
	}
	if err == nil {
		if !own && r.isRepaired(current, owner) {
			return
		}
		delete(r.unsettled.owners, name)
		r.engine.SetRule(inForce(current))
		return
	}
	if slices.ContainsFunc(r.options.Replica.Find(payload.RuleKey(name)), func(e replica.Entry) bool {
		return e.Origin != r.options.ClusterID && e.Status == replica.Live
	}) {
		return // the importer puts it back
	}
	delete(r.unsettled.owners, name)
	r.engine.DeleteRule(name)
}

// isRepaired says that a copy is not what its owner publishes: the importer is about to write it.
func (r *Rules) isRepaired(current *v1alpha1.ResourceSyncRule, owner string) bool {
	e, ok := r.options.Replica.Lookup(payload.RuleKey(current.Name), owner)
	if !ok {
		return false
	}
	published, err := payload.DecodeRule(owner, current.Name, e.Payload)
	return err == nil && !equality.Semantic.DeepEqual(published.Spec, current.Spec)
}
