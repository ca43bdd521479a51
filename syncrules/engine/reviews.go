// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/syncrules"
	"github.com/roster-mesh/roster/syncrules/engine/problem"
	"github.com/roster-mesh/roster/syncrules/engine/tally"
)

// Reviews ask API servers what the agent may do. They decide nothing: that a request was refused is the truth, and
// a review only says which right to grant. Of the local API server one is made when a rule starts, since there
// may be no object yet whose copy would be refused; a peer's answer to the watch says the same sooner. Beyond
// that, one is made when something was refused, and again with back-off while rights are missing.

const (
	reviewTimeout  = 15 * time.Second
	reviewFirst    = 5 * time.Second
	reviewMost     = 5 * time.Minute
	reviewsAtATime = 4
	maxReviewed    = 16 // namespaces of one kind
)

// Lack is what a review found missing; the zero value is nothing.
type Lack struct {
	// Resource is the name that RBAC has for the kind.
	Resource schema.GroupResource
	Verbs    []string
	// Namespaces in which they are missing; none for all of them, and for kinds outside namespaces.
	Namespaces []string
}

// reviewKey is a kind in the local API server, or in that of a peer.
type reviewKey struct {
	cluster string
	gvk     schema.GroupVersionKind
}

// review is what is known of the rights on one kind. Engine.mu guards it.
type review struct {
	verbs []string
	lack  Lack
	tries int       // without everything being allowed
	asked time.Time // last
	next  time.Time // zero for not before something is refused
	busy  bool
}

func writeVerbs() []string { return []string{"get", "list", "watch", "create", "update", "delete"} }

// updateStatus is the verb update on the status, where the kind has that as a subresource.
const updateStatus = "update/status"

func readVerbs() []string { return []string{"get", "list", "watch"} }

// superviseReviews has the local rights of kinds reviewed that rules are about now. mu is held.
func (e *Engine) superviseReviews() {
	if e.o.Review == nil || len(e.stale) == 0 {
		return
	}
	for key := range e.reviews {
		if key.cluster == "" && len(e.reviewed(key.gvk)) == 0 && (key.gvk != namespaceKind() || !e.createsNamespaces()) {
			delete(e.reviews, key)
		}
	}
	for _, r := range e.rules {
		if r.compiled == nil {
			continue
		}
		for _, s := range r.targets {
			if key := (reviewKey{gvk: s.GVK}); e.reviews[key] == nil {
				e.reviews[key] = &review{verbs: writeVerbs(), next: time.Now()}
				poked(e.reviewWake)
			}
		}
	}
}

func namespaceKind() schema.GroupVersionKind {
	return schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}
}

// reviewed are the namespaces in which rules write a kind here, "" for all of them. mu is held.
func (e *Engine) reviewed(gvk schema.GroupVersionKind) []string {
	all := map[string]bool{}
	for _, r := range e.rules {
		if r.compiled == nil {
			continue
		}
		for _, s := range r.targets {
			if s.GVK == gvk {
				all[s.Namespace] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// refused are the namespaces of a kind in which a peer refuses the watch, "" for all of them. mu is held.
func (e *Engine) refused(key reviewKey) []string {
	all := map[string]bool{}
	for s, v := range e.views[key.cluster] {
		if s.GVK == key.gvk && v.err != nil && e.errors.Class(v.err) == problem.Forbidden {
			all[s.Namespace] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// suspect says that a right seems to be missing. mu is held.
func (e *Engine) suspect(key reviewKey) {
	if e.o.Review == nil {
		return
	}
	v := e.reviews[key]
	if v == nil {
		v = &review{verbs: writeVerbs()}
		switch {
		case key.cluster != "":
			v.verbs = readVerbs()
		case key.gvk == namespaceKind() && len(e.reviewed(key.gvk)) == 0:
			v.verbs = []string{"create"}
		}
		e.reviews[key] = v
	}
	if v.next.IsZero() && !v.busy {
		v.next = time.Now()
		if quiet := v.asked.Add(min(reviewFirst<<min(v.tries, 8), reviewMost)); !v.asked.IsZero() && quiet.After(v.next) {
			v.next = quiet
		}
		poked(e.reviewWake)
	}
}

// suspectWrite is suspect for what a refused write needed. mu is held.
func (e *Engine) suspectWrite(d syncrules.Decision, p *problem.Problem) {
	if d.Object == nil {
		return
	}
	key := reviewKey{gvk: d.Object.GroupVersionKind()}
	if k := e.kinds[key.gvk.GroupKind()]; k != nil && k.written == key.gvk {
		key.gvk = k.written // its names are no parts of an object
	}
	if p.Namespace {
		key.gvk = namespaceKind()
	}
	e.suspect(key)
	if v := e.reviews[key]; v != nil && d.Action == syncrules.UpdateStatus && !slices.Contains(v.verbs, updateStatus) {
		v.verbs = append(slices.Clip(v.verbs), updateStatus)
	}
}

// review makes the reviews that are due until ctx ends. It keeps no timer while none is.
func (e *Engine) review(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-e.reviewWake:
		case <-timer.C:
		}
		due, next := e.dueReviews(time.Now())
		var group sync.WaitGroup
		room := make(chan struct{}, reviewsAtATime)
		for key, namespaces := range due {
			room <- struct{}{}
			group.Go(func() {
				e.reviewOne(ctx, key, namespaces)
				<-room
			})
		}
		group.Wait()
		if len(due) > 0 {
			poked(e.reviewWake)
		} else if next > 0 {
			timer.Reset(next)
		}
	}
}

// dueReviews are the reviews to make now, with their namespaces; those that nobody needs are forgotten.
func (e *Engine) dueReviews(now time.Time) (due map[reviewKey][]string, next time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	due = map[reviewKey][]string{}
	for key, v := range e.reviews {
		if v.next.IsZero() {
			continue
		}
		if wait := v.next.Sub(now); wait > 0 {
			if next == 0 || wait < next {
				next = wait
			}
			continue
		}
		namespaces := e.reviewed(key.gvk)
		if key.cluster != "" {
			namespaces = e.refused(key)
		}
		if len(namespaces) == 0 && (key != reviewKey{gvk: namespaceKind()} || !e.createsNamespaces()) {
			delete(e.reviews, key)
			continue
		}
		v.next, v.asked, v.busy = time.Time{}, now, true
		due[key] = namespaces
	}
	return due, next
}

func (e *Engine) createsNamespaces() bool {
	for _, r := range e.rules {
		if r.compiled != nil && r.compiled.CreatesNamespace() {
			return true
		}
	}
	return false
}

func (e *Engine) reviewOne(ctx context.Context, key reviewKey, namespaces []string) {
	if slices.Contains(namespaces, "") {
		namespaces = nil
	}
	namespaces = namespaces[:min(len(namespaces), maxReviewed)]
	e.mu.Lock()
	v := e.reviews[key]
	if v == nil {
		e.mu.Unlock()
		return
	}
	verbs := v.verbs
	e.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, reviewTimeout)
	defer cancel()
	lack, err := e.o.Review(ctx, key.cluster, key.gvk, namespaces, verbs)
	e.mu.Lock()
	defer e.mu.Unlock()
	v.busy = false
	before := v.lack
	switch {
	case err != nil:
		v.tries++
	case len(lack.Verbs) > 0:
		v.lack = lack
		v.tries++
	default:
		v.lack, v.tries = Lack{}, 0
	}
	if v.tries > 0 {
		v.next = time.Now().Add(min(reviewFirst<<min(v.tries-1, 8), reviewMost))
	}
	if !before.same(v.lack) {
		for _, r := range e.rules {
			r.sender.dirty = true
		}
		poked(e.reportWake)
		if key.cluster == "" && len(v.lack.Verbs) < len(before.Verbs) {
			e.retryRefused()
		}
	}
}

// retryRefused puts up what failed for want of a right. mu is held.
func (e *Engine) retryRefused() {
	for k, r := range e.results {
		if r.State == tally.Failed && r.Reason == problem.ReasonMissingPermission {
			e.pacer.Succeeded(k)
			e.enqueue(k)
		}
	}
}

func (l Lack) same(o Lack) bool {
	return l.Resource == o.Resource && slices.Equal(l.Verbs, o.Verbs) && slices.Equal(l.Namespaces, o.Namespaces)
}

// concerns says that something is missing in the scope, and not only where other rules make copies.
func (l Lack) concerns(s Scope) bool {
	return len(l.Namespaces) == 0 || slices.ContainsFunc(l.Namespaces, s.Covers)
}

func (l Lack) where() string {
	if len(l.Namespaces) == 0 {
		return ""
	}
	return " in namespace " + strings.Join(l.Namespaces[:min(len(l.Namespaces), maxOrphans)], ", ")
}

// grant is the command that a person with the right to do so can paste.
func (l Lack) grant(name, label string, verbs []string) string {
	for _, word := range []string{l.Resource.Resource, l.Resource.Group} {
		if word != "" && len(validation.IsDNS1123Subdomain(word)) > 0 {
			return "a ClusterRole with the label " + label + "=true" // the peer has it named so: no shell is to see that
		}
	}
	resources := l.Resource.Resource
	if i := slices.Index(verbs, updateStatus); i >= 0 {
		verbs, resources = slices.Delete(slices.Clone(verbs), i, i+1), resources+", "+resources+"/status"
	}
	return fmt.Sprintf(`kubectl apply -f - <<< '{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: roster-%s-%s, labels: {%s: "true"}}, rules: [{apiGroups: ["%s"], resources: [%s], verbs: [%s]}]}'`,
		name, l.Resource, label, l.Resource.Group, resources, strings.Join(verbs, ", "))
}

// lacksHere says which rights a rule needs here and the agent lacks, and how to grant them; "" for none that
// is known. mu is held.
func (e *Engine) lacksHere(r *rule) string {
	seen := map[schema.GroupVersionKind]bool{}
	scopes := slices.Clip(r.targets)
	if r.compiled != nil && r.compiled.CreatesNamespace() && r.tally.Reasons[problem.ReasonMissingPermission] > 0 {
		scopes = append(scopes, Scope{GVK: namespaceKind()})
	}
	var texts []string
	for _, s := range scopes {
		v := e.reviews[reviewKey{gvk: s.GVK}]
		if seen[s.GVK] || v == nil || len(v.lack.Verbs) == 0 || !v.lack.concerns(s) {
			continue
		}
		seen[s.GVK] = true
		texts = append(texts, fmt.Sprintf("the agent may not %s %s%s here; grant it with: %s", strings.Join(v.lack.Verbs, ", "),
			v.lack.Resource, v.lack.where(), v.lack.grant("write", v1alpha1.LabelControllerAggregated, v.verbs)))
	}
	return strings.Join(texts, "; and ")
}

// lacksThere is the same about what a peer does not let this cluster read. mu is held.
func (e *Engine) lacksThere(cluster, peer string, gvk schema.GroupVersionKind) string {
	key := reviewKey{cluster: peer, gvk: gvk}
	e.suspect(key)
	v := e.reviews[key]
	if v == nil || len(v.lack.Verbs) == 0 {
		return ""
	}
	return fmt.Sprintf("cluster %s does not let this one %s %s%s; grant it there with: %s", cluster, strings.Join(v.lack.Verbs, ", "),
		v.lack.Resource, v.lack.where(), v.lack.grant("read", v1alpha1.LabelReaderAggregated, v.verbs))
}
