// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roster-mesh/roster/syncrules"
	"github.com/roster-mesh/roster/syncrules/engine/namespaces"
	"github.com/roster-mesh/roster/syncrules/engine/place"
	"github.com/roster-mesh/roster/syncrules/engine/problem"
	"github.com/roster-mesh/roster/syncrules/engine/rights"
	"github.com/roster-mesh/roster/syncrules/engine/tally"
	"github.com/roster-mesh/roster/syncrules/engine/wake"
)

// Lack is what a review found missing.
type Lack = rights.Lack

func newReviewer(e *Engine) *rights.Reviewer {
	return rights.New(rights.Options{
		Namespace: e.o.Namespace, Review: e.o.Review,
		Needed: func(key rights.Key) ([]string, bool) {
			e.mu.Lock()
			defer e.mu.Unlock()
			return e.rightsNeededLocked(key)
		},
		Changed: func(fewer bool) {
			e.mu.Lock()
			defer e.mu.Unlock()
			for _, r := range e.rules.byName {
				r.sender.Dirty = true
			}
			wake.Up(e.reporter.wake)
			if fewer {
				e.retryRefusedLocked()
			}
		},
	})
}

// superviseReviewsLocked has the local rights on kinds reviewed that rules are about now.
func (e *Engine) superviseReviewsLocked(stale map[schema.GroupKind]bool) {
	if e.o.Review == nil || len(stale) == 0 {
		return
	}
	var kinds, others []schema.GroupVersionKind
	for _, r := range e.rules.byName {
		if r.surplus != "" {
			continue
		}
		for _, s := range r.targets {
			kinds = append(kinds, s.GVK)
		}
	}
	if e.createsNamespacesLocked() {
		others = append(others, namespaces.Kind()) // reviewed when one is refused
	}
	e.rights.Sync(kinds, others)
}

// rightsNeededLocked are the namespaces in which rules write a kind here, or in which a peer refuses its watch; "" for all
// of them. False says that nobody needs the rights any more.
func (e *Engine) rightsNeededLocked(key rights.Key) ([]string, bool) {
	all := map[string]bool{}
	if key.Cluster == "" {
		for _, r := range e.rules.byName {
			for _, s := range r.targets {
				if s.GVK == key.GVK {
					all[s.Namespace] = true
				}
			}
		}
	} else {
		for s, v := range e.views.byPeer[key.Cluster] {
			if s.GVK == key.GVK && v.err != nil && e.errors().Class(v.err) == problem.Forbidden {
				all[s.Namespace] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(all)), len(all) > 0 || key == rights.Key{GVK: namespaces.Kind()} && e.createsNamespacesLocked()
}

// suspectLocked says that a right seems to be missing; status that it is one on the status of the kind.
func (e *Engine) suspectLocked(key rights.Key, status bool) {
	if e.o.Review == nil {
		return
	}
	verbs := rights.Write()
	switch {
	case key.Cluster != "":
		verbs = rights.Read()
	case key.GVK == namespaces.Kind():
		if k := e.rules.kinds[key.GVK.GroupKind()]; k == nil || len(k.writers) == 0 {
			verbs = []string{"create"}
		}
	}
	e.rights.Suspect(key, verbs, status)
}

// suspectWriteLocked is suspectLocked for what a refused write needed.
func (e *Engine) suspectWriteLocked(d syncrules.Decision, p *problem.Problem) {
	if d.Object == nil {
		return
	}
	gvk := d.Object.GroupVersionKind()
	if k := e.rules.kinds[gvk.GroupKind()]; k != nil && k.written.GroupVersionKind == gvk {
		gvk = k.written.GroupVersionKind // its names are no parts of an object
	}
	if p.Namespace {
		gvk = namespaces.Kind()
	}
	e.suspectLocked(rights.Key{GVK: gvk}, d.Action == syncrules.UpdateStatus)
}

func (e *Engine) createsNamespacesLocked() bool {
	return e.rules.any(func(r *rule) bool { return r.compiled != nil && r.compiled.CreatesNamespace() })
}

// retryRefusedLocked puts up what failed for want of a right.
func (e *Engine) retryRefusedLocked() {
	for k, r := range e.outcomes.results {
		if r.State == tally.Failed && r.Reason == problem.ReasonMissingPermission {
			e.outcomes.pacer.Succeeded(k)
			e.queue.EnqueueLocked(k)
		}
	}
}

// lacksHereLocked says which rights a rule needs here and the agent lacks, and how to grant them; "" for none that is known.
func (e *Engine) lacksHereLocked(r *rule) string {
	scopes := r.targets
	if r.compiled != nil && r.compiled.CreatesNamespace() && r.tally.Reasons[problem.ReasonMissingPermission] > 0 {
		scopes = append(slices.Clip(scopes), place.Scope{GVK: namespaces.Kind()})
	}
	return e.rights.Here(scopes)
}

// lacksThereLocked is the same about what a peer does not let this cluster read.
func (e *Engine) lacksThereLocked(cluster, peer string, s Scope) string {
	e.suspectLocked(rights.Key{Cluster: peer, GVK: s.GVK}, false)
	return e.rights.There(peer, cluster, s)
}
