// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roster-mesh/roster/syncrules"
	"github.com/roster-mesh/roster/syncrules/engine/bounds"
	"github.com/roster-mesh/roster/syncrules/engine/deletions"
	"github.com/roster-mesh/roster/syncrules/engine/inforce"
	"github.com/roster-mesh/roster/syncrules/engine/memory"
	"github.com/roster-mesh/roster/syncrules/engine/place"
	"github.com/roster-mesh/roster/syncrules/engine/selections"
	"github.com/roster-mesh/roster/syncrules/engine/turns"
	"github.com/roster-mesh/roster/syncrules/packed"
)

// settleTime is for how long a create waits for views that have only just been opened: the origin with the
// smallest clusterID is to get the copy, not the fastest one.
const settleTime = time.Second

type viewKey struct {
	peer  string
	scope Scope
}

// view is what one peer has in one scope. Engine.mu guards it.
type view struct {
	viewKey
	entries map[types.NamespacedName]*entry
	// judges are the rules, with their selections, that the entries were judged by.
	judges map[string]string // not to be changed
	// live says that the entries are complete and kept up to date; answered that the watch has said
	// anything yet since it was opened.
	live, answered bool
	since          time.Time
	took           time.Duration // to judge the last list, of whatever watch
	err            error
	// gone are the deletions that were seen live and not yet acted on.
	gone deletions.Deletions
	// held is the size of entries; usage that of all views of the peer.
	held  memory.Load
	usage *memory.Cluster
	feed  *feed // the running watch; nil while the peer has no Source
}

// entry is an object that matches.
type entry struct {
	object       packed.Object
	sum          uint64             // of object; as Hasher.Of unless rules may read fields that no copy has
	rules        []string           // that select it, by name; shared, not to be changed
	destinations place.Destinations // where the copies of these rules belong; nil when all of them are in the place of the entry
	held         string             // why copies stay as they are; "" normally
	arrived      time.Time          // of what no copy was made of yet; zero afterwards
}

func (a *entry) size() int64 { return int64(len(a.object)) }

func (a *entry) same(b *entry) bool {
	return a.held == b.held && slices.Equal(a.rules, b.rules) && slices.Equal(a.destinations, b.destinations) && a.object == b.object
}

// feed is the Sink of a view for as long as its watch runs. Its rules never change: another set of rules is
// another feed.
type feed struct {
	e      *Engine
	v      *view
	source Source
	rules  []*syncrules.Rule // by name
	names  [][]string        // of each rule alone, so that entries can share them
	judges map[string]string // not to be changed
	whole  bool              // rules may read fields that no copy has
	// moves says that rules may put copies elsewhere, reads that this depends on the Cluster objects of input.
	moves, reads bool
	input        syncrules.Input
	scoping      place.Kinds // that input has
	stop         func()
	coming       memory.Coming
	attempt      atomic.Pointer[attempt] // the last one; nil before the first
}

// attempt is one to watch.
type attempt struct {
	stop    context.CancelFunc
	aborted atomic.Pointer[error] // what is too much, once it is being ended; nil normally
}

func newFeed(e *Engine, v *view, p *peer, rules []*rule) *feed {
	f := &feed{e: e, v: v, source: p.Source, judges: map[string]string{}, input: e.inputOfLocked(p), scoping: e.scoping.known}
	for _, r := range rules {
		f.rules = append(f.rules, r.compiled)
		f.names = append(f.names, []string{r.name})
		f.judges[r.name] = r.selection
		f.whole = f.whole || r.compiled.ReadsContent()
		f.moves = f.moves || r.moves
		f.reads = f.reads || r.moves && r.reads
	}
	return f
}

// current says that what the feed knows of clusters and kinds holds, serves that it is the one for these rules as they are now, too.
func (f *feed) current(p *peer, rules []*rule) bool {
	return f.source == p.Source && !f.rescoped(rules) && (!f.reads || f.input.Cluster == p.seen.cluster && f.input.LocalCluster == f.e.clusters.snapshot.cluster)
}

func (f *feed) serves(p *peer, rules []*rule) bool {
	return f.current(p, rules) && len(rules) == len(f.judges) && !slices.ContainsFunc(rules, func(r *rule) bool {
		selection, ok := f.judges[r.name]
		return !ok || selection != r.selection
	})
}

// rescoped says that a kind which rules may move copies into is in namespaces now and was not, or the other way around.
func (f *feed) rescoped(rules []*rule) bool {
	return f.moves && slices.ContainsFunc(rules, func(r *rule) bool {
		return r.moves && slices.ContainsFunc(r.learns, func(gvk schema.GroupVersionKind) bool {
			was, known := f.scoping[gvk]
			is, knows := f.e.scoping.known[gvk]
			return was != is || known != knows
		})
	})
}

// keep is what the source is asked for: objects that a rule selects and that are nobody's copies, unless they are too many.
// The first rule of the last one is remembered until it is handed over: each rule is asked once about an update.
func (f *feed) keep(obj *unstructured.Unstructured) bool {
	first := f.first(obj)
	if first < 0 {
		f.coming.Refuse()
		return false
	}
	return f.admit(obj, first)
}

// first is the first rule that selects an object of this source; -1 for none.
func (f *feed) first(obj *unstructured.Unstructured) int {
	if !syncrules.IsSource(obj) || !f.v.scope.Holds(obj) {
		return -1
	}
	return slices.IndexFunc(f.rules, func(r *syncrules.Rule) bool { return f.selects(r, obj) })
}

// match is the names of the rules that select an object of which the first one is known, without those that are left out; nil for none.
func (f *feed) match(obj *unstructured.Unstructured, first int, out func(rule string) bool) (names []string) {
	if first < 0 {
		return nil
	}
	if !out(f.rules[first].Name()) {
		names = f.names[first] // full, so that another one is appended to a copy
	}
	for _, r := range f.rules[first+1:] {
		if !out(r.Name()) && f.selects(r, obj) {
			names = append(names, r.Name())
		}
	}
	return slices.Clip(names)
}

// selects says whether a rule selects an object.
func (f *feed) selects(r *syncrules.Rule, obj *unstructured.Unstructured) bool {
	if f.e.rules.asked != nil {
		f.e.rules.asked.Add(1)
	}
	return r.Match(obj)
}

// judge is the entry of an object that rules select, nil when none does.
func (f *feed) judge(obj *unstructured.Unstructured, names []string) *entry {
	if len(names) == 0 {
		return nil
	}
	var destinations place.Destinations
	if f.moves {
		destinations = make(place.Destinations, 0, len(names))
		for _, r := range f.rules { // both are by name
			if len(destinations) < len(names) && r.Name() == names[len(destinations)] {
				destinations = append(destinations, f.destinationOf(r, obj))
			}
		}
	}
	out := &entry{rules: names, destinations: destinations.UnlessHome(place.KeyOf(f.v.scope.GVK.GroupKind(), obj)), arrived: time.Now()}
	out.held, _ = syncrules.Obstacle(obj)
	if !f.whole {
		syncrules.Trim(obj)
	}
	var err error
	if out.object, err = packed.Pack(obj); err != nil {
		return nil // no API server sent it
	}
	out.sum = f.e.hash.Packed(out.object)
	return out
}

// Replace implements Sink.
func (f *feed) Replace(objs []*unstructured.Unstructured, _ string) {
	began, entries := time.Now(), make(map[types.NamespacedName]*entry, len(objs))
	var list selections.List
	before := f.leftOut(0)
	out := func(rule string) bool { return before(rule) || list.Ended(rule) }
	for _, obj := range objs {
		at, first := place.NameOf(obj), f.first(obj)
		if first < 0 {
			continue
		}
		// It is nil where only rules select it that are left out: it is there all the same.
		if entries[at] = f.judge(obj, f.match(obj, first, out)); entries[at] != nil && !f.countSoFar(&list, at, entries[at]) {
			break
		}
	}
	f.release()
	v, took := f.v, time.Since(began)
	f.e.mu.Lock()
	defer f.e.mu.Unlock()
	v.took = took
	defer list.Release(func(rule string, more int64) { f.e.countComingLocked(v.peer, rule, more) })
	bytes := f.leaveOutLocked(entries)
	if v.feed != f || f.aborted() || !f.fitsLocked(int64(len(entries))-v.held.Objects.Load(), bytes-v.held.Bytes.Load()) {
		return
	}
	for at, old := range v.entries {
		if entries[at] == nil {
			f.e.dropEntryLocked(v, at)
			f.touchLocked(at, old)
		}
	}
	for at, ent := range entries {
		old := v.entries[at]
		f.e.putEntryLocked(v, at, ent)
		if old == nil || !old.same(ent) {
			f.touchLocked(at, old, ent)
		} else {
			ent.arrived = old.arrived
		}
	}
	f.e.countDueLocked()
	rejudged := inforce.Edited(v.judges, f.judges)
	v.judges = f.judges
	v.noteAnswerLocked(f.e)
	f.e.enqueueViewLocked(v, inforce.About(rejudged))
	if v.live {
		f.e.turnedLiveLocked(v)
	}
}

// Upsert implements Sink.
func (f *feed) Upsert(obj *unstructured.Unstructured) {
	at := place.NameOf(obj)
	first, known := f.coming.FirstOf(at, obj.GetResourceVersion())
	if !known {
		first = f.first(obj)
	}
	ent := f.judge(obj, f.match(obj, first, f.leftOut(first)))
	f.release()
	f.e.mu.Lock()
	defer f.e.mu.Unlock()
	if f.v.feed != f || f.aborted() {
		return
	}
	if first < 0 {
		f.removeLocked(at)
		return
	}
	if ent = ent.without(f.leavesOut, f.v.key(at)); ent == nil {
		f.leaveLocked(at)
		return
	}
	old := f.v.entries[at]
	if old != nil && old.same(ent) {
		return // only its status changed, say
	}
	if old == nil && !f.fitsLocked(1, ent.size()) || old != nil && !f.fitsLocked(0, ent.size()-old.size()) {
		return
	}
	f.e.putEntryLocked(f.v, at, ent)
	f.e.countDueLocked()
	f.touchLocked(at, old, ent)
	for _, rule := range ent.rules {
		f.e.recountLocked(rule)
	}
}

// Delete implements Sink.
func (f *feed) Delete(namespace, name string, _ *unstructured.Unstructured) {
	f.e.mu.Lock()
	defer f.e.mu.Unlock()
	if f.v.feed == f && !f.aborted() {
		f.removeLocked(types.NamespacedName{Namespace: namespace, Name: name})
	}
}

// removeLocked takes an object away that is proven to be gone, or not to match any more.
func (f *feed) removeLocked(at types.NamespacedName) {
	old := f.v.entries[at]
	if old == nil {
		return
	}
	f.e.dropEntryLocked(f.v, at)
	f.e.countDueLocked()
	if f.e.o.GuardLive {
		f.e.lostLocked(f.v, at, old)
	} else {
		for to := range f.e.placesLocked(f.v, at, old) {
			c := f.e.local.copies.At(to)
			if c != nil && c.Owner == f.v.peer || c == nil && !f.e.localCompleteLocked(to.GroupKind, to.Namespace) {
				f.v.gone.Add(at, to)
			}
		}
	}
	f.touchLocked(at, old)
}

// touchLocked puts up the keys of the copies of entries. Where one belonged before it could not be told is to be searched.
func (f *feed) touchLocked(at types.NamespacedName, entries ...*entry) {
	from := f.v.key(at)
	again, concerns := false, func(Key) bool { return true }
	if len(entries) > 1 && entries[0] != nil && entries[0].held == entries[1].held {
		old, ent := entries[0], entries[1]
		if again = ent.placedLike(old); ent.object == old.object {
			concerns = ent.destinations.Unlike(ent.rules, old.destinations, old.rules, from)
		}
	}
	for i, ent := range entries {
		if ent == nil || i > 0 && entries[0] != nil && ent.placedLike(entries[0]) {
			continue // the same places again, which a worker could take twice
		}
		for to := range f.e.placesLocked(f.v, at, ent) {
			if !concerns(to) || again && f.e.comesLaterLocked(to, ent) {
				continue // nothing is new there, or what is new then is looked at when its turn comes
			}
			f.e.queue.EnqueueForLocked(to, func() []turns.Path { return f.e.linesOfLocked(f.v, ent, to) })
		}
		if !ent.destinations.Faulty() {
			continue
		}
		f.e.queue.EnqueueLocked(from) // its copy may be in its own place
		for _, gk := range f.e.writtenFromLocked(f.judges) {
			for to := range f.e.local.copies.MovedFrom(gk, f.v.peer, from) {
				f.e.queue.EnqueueLocked(place.At(gk, to))
			}
		}
	}
}

// Health implements Sink.
func (f *feed) Health(err error) {
	f.e.mu.Lock()
	defer f.e.mu.Unlock()
	v := f.v
	if v.feed != f || f.aborted() && !errors.Is(err, bounds.ErrTooMuch) {
		return
	}
	if err != nil {
		f.e.doubtLocked(v)
	}
	v.err, v.live = err, err == nil
	v.noteAnswerLocked(f.e)
	if v.live {
		f.e.turnedLiveLocked(v)
	}
	f.e.kindDirtyLocked(v.scope.GVK.GroupKind())
}

// noteAnswerLocked ends the waiting for the view.
func (v *view) noteAnswerLocked(e *Engine) {
	if !v.answered {
		v.answered = true
		e.wakeWaitingLocked(v.peer)
	}
}

// awaitedLocked says that the view was opened a moment ago and has not answered yet.
func (v *view) awaitedLocked() bool {
	return v.feed != nil && !v.answered && time.Since(v.since) < settleTime
}
