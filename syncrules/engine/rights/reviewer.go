// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package rights

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roster-mesh/roster/syncrules/engine/place"
)

const (
	// MaxInterval is how long the next review waits at most while rights are missing.
	MaxInterval   = 5 * time.Minute
	firstInterval = 5 * time.Second
	timeout       = 15 * time.Second
	atATime       = 4
	maxNamespaces = 16 // of one kind that are reviewed
)

// Key is a kind in the local API server, for which Cluster is "", or in that of a peer.
type Key struct {
	Cluster string
	GVK     schema.GroupVersionKind
}

// Options are what a Reviewer needs. The functions are called without its lock.
type Options struct {
	Namespace string // that of the agent
	// Review asks an API server which of the verbs on a kind the agent lacks, in the namespaces (none: in all).
	Review func(ctx context.Context, cluster string, gvk schema.GroupVersionKind, namespaces, verbs []string) (Lack, error)
	// Needed are the namespaces in which rights on a kind are needed now, "" for all of them; false when none are.
	Needed func(Key) (namespaces []string, needed bool)
	// Changed is told that another review found something else; fewer says that local rights were granted.
	Changed func(fewer bool)
}

// Reviewer knows what the last reviews found.
type Reviewer struct {
	o    Options
	wake chan struct{}

	mu      sync.Mutex
	reviews map[Key]*review
}

// review is what is known of the rights on one kind.
type review struct {
	verbs []string
	lack  Lack
	wide  bool      // some rules need the rights in all namespaces, which lack is about, and others in those that they name
	named Lack      // of the latter, where wide
	tries int       // without everything being allowed
	asked time.Time // last
	next  time.Time // zero for not before something is refused
	busy  bool
}

// New makes a Reviewer that has reviewed nothing.
func New(o Options) *Reviewer {
	return &Reviewer{o: o, wake: make(chan struct{}, 1), reviews: map[Key]*review{}}
}

func (r *Reviewer) wakeUp() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// Sync has the local rights on kinds reviewed that were not reviewed yet, and forgets those on all but them and others.
func (r *Reviewer) Sync(kinds, others []schema.GroupVersionKind) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for key := range r.reviews {
		if key.Cluster == "" && !slices.Contains(kinds, key.GVK) && !slices.Contains(others, key.GVK) {
			delete(r.reviews, key)
		}
	}
	for _, gvk := range kinds {
		if key := (Key{GVK: gvk}); r.reviews[key] == nil {
			r.reviews[key] = &review{verbs: Write(), next: time.Now()}
			r.wakeUp()
		}
	}
}

// Suspect says that a right seems to be missing. The verbs are those that are reviewed, unless they are known already;
// status adds UpdateStatus.
func (r *Reviewer) Suspect(key Key, verbs []string, status bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	v := r.reviews[key]
	if v == nil {
		v = &review{verbs: verbs}
		r.reviews[key] = v
	}
	if v.next.IsZero() && !v.busy {
		v.next = time.Now()
		if quiet := v.asked.Add(min(firstInterval<<min(v.tries, 8), MaxInterval)); !v.asked.IsZero() && quiet.After(v.next) {
			v.next = quiet
		}
		r.wakeUp()
	}
	if status && !slices.Contains(v.verbs, UpdateStatus) {
		v.verbs = append(slices.Clip(v.verbs), UpdateStatus)
	}
}

// Run makes the reviews that are due until ctx ends. It keeps no timer while none is.
func (r *Reviewer) Run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.wake:
		case <-timer.C:
		}
		due, next := r.due(time.Now())
		var group sync.WaitGroup
		room := make(chan struct{}, atATime)
		for _, key := range due {
			room <- struct{}{}
			group.Go(func() {
				r.review(ctx, key)
				<-room
			})
		}
		group.Wait()
		if len(due) > 0 {
			r.wakeUp()
		} else if next > 0 {
			timer.Reset(next)
		}
	}
}

// due are the reviews to make now; next is when to look again, 0 for when something is refused.
func (r *Reviewer) due(now time.Time) (due []Key, next time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for key, v := range r.reviews {
		if v.next.IsZero() {
			continue
		}
		if wait := v.next.Sub(now); wait > 0 {
			if next == 0 || wait < next {
				next = wait
			}
			continue
		}
		v.next, v.asked, v.busy = time.Time{}, now, true
		due = append(due, key)
	}
	return due, next
}

func (r *Reviewer) review(ctx context.Context, key Key) {
	namespaces, needed := r.o.Needed(key)
	verbs := r.begin(key, needed)
	if verbs == nil {
		return
	}
	wide := slices.Contains(namespaces, "")
	namespaces = slices.DeleteFunc(namespaces, func(namespace string) bool { return namespace == "" })
	namespaces = namespaces[:min(len(namespaces), maxNamespaces)]
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	first := namespaces
	if wide {
		first = nil
	}
	var named Lack
	found, err := r.o.Review(ctx, key.Cluster, key.GVK, first, verbs)
	if wide = wide && len(namespaces) > 0; wide && err == nil && len(found.Verbs) > 0 {
		named, err = r.o.Review(ctx, key.Cluster, key.GVK, namespaces, verbs)
	}
	if changed, fewer := r.take(key, found, named, wide, err); changed {
		r.o.Changed(fewer && key.Cluster == "")
	}
}

// begin returns the verbs to review; none when nobody needs that any more, which is forgotten then.
func (r *Reviewer) begin(key Key, needed bool) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	v := r.reviews[key]
	switch {
	case v == nil:
		return nil
	case !needed:
		delete(r.reviews, key)
		return nil
	}
	return v.verbs
}

// take takes in what a review found, and says whether that is something else, and less, than before.
func (r *Reviewer) take(key Key, lack, named Lack, wide bool, err error) (changed, fewer bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	v := r.reviews[key]
	if v == nil {
		return false, false // nobody needs it any more
	}
	v.busy = false
	before := *v
	switch {
	case err != nil:
		v.tries++
	case len(lack.Verbs) > 0:
		v.lack, v.named, v.wide = lack, named, wide
		v.tries++
	default:
		v.lack, v.named, v.wide, v.tries = Lack{}, Lack{}, false, 0
	}
	if v.tries > 0 {
		v.next = time.Now().Add(min(firstInterval<<min(v.tries-1, 8), MaxInterval))
	}
	changed = !before.lack.same(v.lack) || !before.named.same(v.named) || before.wide != v.wide
	return changed, len(v.lack.Verbs) < len(before.lack.Verbs) || len(v.named.Verbs) < len(before.named.Verbs)
}

// of is what is missing in a scope of a rule: what others need in all namespaces is nothing to it if it names its own.
func (v *review) of(s place.Scope) Lack {
	if v.wide && s.Namespace != "" {
		return v.named
	}
	return v.lack
}

// Here says which local rights are missing in scopes, and how to grant them; "" for none that is known.
func (r *Reviewer) Here(scopes []place.Scope) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	seen := map[schema.GroupVersionKind]bool{}
	var texts []string
	for _, s := range scopes {
		v := r.reviews[Key{GVK: s.GVK}]
		if seen[s.GVK] || v == nil || len(v.of(s).Verbs) == 0 || !v.of(s).concerns(s) {
			continue
		}
		seen[s.GVK] = true
		lack := v.of(s).within(scopes, s.GVK)
		texts = append(texts, fmt.Sprintf("the agent may not %s %s%s%s", strings.Join(lack.Verbs, ", "),
			lack.Resource, lack.where(), lack.here(v.verbs, r.o.Namespace)))
	}
	return strings.Join(texts, "; and ")
}

// There says which rights on the kind of a scope a peer, which people call name, does not give to the agent.
func (r *Reviewer) There(cluster, name string, s place.Scope) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	v := r.reviews[Key{Cluster: cluster, GVK: s.GVK}]
	if v == nil || len(v.lack.Verbs) == 0 {
		return ""
	}
	lack := v.lack.within([]place.Scope{s}, s.GVK)
	return fmt.Sprintf("cluster %s does not let this one %s %s%s%s", name, strings.Join(lack.Verbs, ", "),
		lack.Resource, lack.where(), lack.there(v.verbs, r.o.Namespace))
}
