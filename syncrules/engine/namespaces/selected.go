// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package namespaces

import (
	"iter"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/roster-mesh/roster/syncrules/engine/place"
	"github.com/roster-mesh/roster/syncrules/fanout"
)

// selected is the namespaces that rules select (spec.targetNamespaces), and the Sink of the watch of all namespaces, which
// runs while such a rule is in force. The lock of the engine guards it.
type selected struct {
	n     *Namespaces
	stop  func() // nil while nobody needs the watch
	live  bool
	err   error
	all   map[string]*fanout.Namespace // by name
	rules map[string]*selection        // by name
	// loads is what of each cluster a rule puts into each of its namespaces.
	loads map[string]map[string]fanout.Load
}

// selection is what one rule selects.
type selection struct {
	*fanout.Selector
	names map[string]struct{}
	// left are the namespaces that it does not select any more, and that did so before our eyes.
	left map[string]struct{}
}

func newSelected(n *Namespaces) *selected {
	return &selected{n: n, rules: map[string]*selection{}, loads: map[string]map[string]fanout.Load{}}
}

// SelectLocked states what a rule selects; nil for nothing. What is known of the namespaces holds while that is the same.
func (n *Namespaces) SelectLocked(rule string, s *fanout.Selector) {
	if s == nil {
		delete(n.selected.rules, rule)
		return
	}
	if old := n.selected.rules[rule]; old != nil && old.Same(s) {
		return
	}
	n.selected.rules[rule] = &selection{Selector: s, names: n.selected.namesOf(s), left: map[string]struct{}{}}
}

// namesOf are the namespaces, as far as they are known, that are selected now.
func (w *selected) namesOf(s *fanout.Selector) map[string]struct{} {
	names := map[string]struct{}{}
	for name, ns := range w.all {
		if s.Weigh(ns) == fanout.Yes {
			names[name] = struct{}{}
		}
	}
	return names
}

// AnswerLocked says whether a rule selects a namespace. That it does not is known while the watch is live; proven says that
// it was seen to cease.
func (n *Namespaces) AnswerLocked(rule, name string) (answer fanout.Answer, proven bool) {
	s := n.selected.rules[rule]
	if s == nil {
		return fanout.Unknown, false
	}
	answer = s.Weigh(n.selected.all[name])
	if answer == fanout.No && !n.selected.live {
		answer = fanout.Unknown
	}
	_, proven = s.left[name]
	return answer, proven
}

// ExplainLocked says it to people.
func (n *Namespaces) ExplainLocked(rule, name string) string {
	s := n.selected.rules[rule]
	if s == nil {
		return ""
	}
	if s.Weigh(n.selected.all[name]) == fanout.No && !n.selected.live {
		return "the labels that namespace " + name + " has by now are not known"
	}
	return s.Explain(rule, name, n.selected.all[name])
}

// InLocked are the namespaces that a rule selects for objects of a cluster: none where that is too many copies.
func (n *Namespaces) InLocked(rule, cluster string) iter.Seq[string] {
	if s := n.selected.rules[rule]; s != nil && n.TooManyLocked(rule, cluster) == "" {
		return maps.Keys(s.names)
	}
	return func(func(string) bool) {}
}

// CountLocked says that there is so much more of a cluster that a rule puts into each of its namespaces.
func (n *Namespaces) CountLocked(rule, cluster string, more fanout.Load) {
	w := n.selected
	before := n.TooManyLocked(rule, cluster)
	if w.loads[rule] == nil {
		w.loads[rule] = map[string]fanout.Load{}
	}
	w.loads[rule][cluster] = w.loads[rule][cluster].Plus(more)
	if w.loads[rule][cluster] == (fanout.Load{}) {
		delete(w.loads[rule], cluster)
	}
	if len(w.loads[rule]) == 0 {
		delete(w.loads, rule)
	}
	if (before == "") != (n.TooManyLocked(rule, cluster) == "") {
		n.e.StaleLocked(rule, false)
	}
}

// TooManyLocked says to people that a rule would make too many copies of the objects of a cluster, or too large ones, "" if it
// does not.
func (n *Namespaces) TooManyLocked(rule, cluster string) string {
	s := n.selected.rules[rule]
	if s == nil {
		return ""
	}
	return n.selected.loads[rule][cluster].TooMany(rule, len(s.names))
}

// PlacesLocked is how many places a rule has for the objects of a cluster: none where that is too many copies.
func (n *Namespaces) PlacesLocked(rule, cluster string) int {
	s := n.selected.rules[rule]
	if s == nil || n.TooManyLocked(rule, cluster) != "" {
		return 0
	}
	return n.selected.loads[rule][cluster].Objects * len(s.names)
}

// SpreadsLocked is PlacesLocked of each cluster that a rule copies something of.
func (n *Namespaces) SpreadsLocked(rule string) iter.Seq2[string, int] {
	return func(yield func(string, int) bool) {
		for cluster := range n.selected.loads[rule] {
			if !yield(cluster, n.PlacesLocked(rule, cluster)) {
				return
			}
		}
	}
}

// AnyLocked says that some rule selects namespaces.
func (n *Namespaces) AnyLocked() bool { return len(n.selected.rules) > 0 }

// KnownLocked says that the labels of all namespaces are known and followed; err is why not, where it is known.
func (n *Namespaces) KnownLocked() (live bool, err error) { return n.selected.live, n.selected.err }

// superviseSelectedLocked watches namespaces while rules select some.
func (n *Namespaces) superviseSelectedLocked(watch Watch, selects bool) {
	w := n.selected
	switch {
	case !selects && w.stop != nil:
		w.stop()
		n.selected = newSelected(n)
		n.selected.loads = w.loads
		for rule, s := range w.rules {
			n.SelectLocked(rule, s.Selector)
		}
	case selects && w.stop == nil:
		w.stop = watch(place.Scope{GVK: Kind()}, w)
	}
}

// Replace implements Sink.
func (w *selected) Replace(objs []*unstructured.Unstructured, _ string) {
	all := make(map[string]*fanout.Namespace, len(objs))
	for _, obj := range objs {
		all[obj.GetName()] = namespaceOf(obj)
	}
	w.n.e.Lock.Lock()
	defer w.n.e.Lock.Unlock()
	before := w.all
	if w.all = all; w.n.selected != w {
		return
	}
	for rule, s := range w.rules {
		names := w.namesOf(s.Selector)
		maps.DeleteFunc(s.left, func(name string, _ struct{}) bool { return s.Weigh(all[name]) != fanout.No })
		differ := func(name string) bool { return s.Weigh(before[name]) != s.Weigh(all[name]) }
		if !maps.Equal(names, s.names) || w.live && slices.ContainsFunc(slices.Collect(maps.Keys(all)), differ) {
			s.names = names
			w.n.e.StaleLocked(rule, true)
		}
	}
}

func namespaceOf(obj *unstructured.Unstructured) *fanout.Namespace {
	return &fanout.Namespace{Labels: obj.GetLabels(), Ends: obj.GetDeletionTimestamp() != nil}
}

// Upsert implements Sink.
func (w *selected) Upsert(obj *unstructured.Unstructured) { w.set(obj.GetName(), namespaceOf(obj)) }

// Delete implements Sink.
func (w *selected) Delete(_, name string, _ *unstructured.Unstructured) { w.set(name, nil) }

// set states a namespace, nil for one that is gone.
func (w *selected) set(name string, ns *fanout.Namespace) {
	w.n.e.Lock.Lock()
	defer w.n.e.Lock.Unlock()
	if w.n.selected != w || w.all == nil {
		return
	}
	old := w.all[name]
	if w.all[name] = ns; ns == nil {
		delete(w.all, name)
	}
	for rule, s := range w.rules {
		before, answer := s.Weigh(old), s.Weigh(ns)
		if before == answer {
			continue
		}
		many := len(s.names)
		if delete(s.names, name); answer == fanout.Yes {
			s.names[name] = struct{}{}
		}
		if delete(s.left, name); before == fanout.Yes && answer == fanout.No && w.live && !w.n.e.GuardLive {
			s.left[name] = struct{}{}
		}
		if w.crosses(rule, many, len(s.names)) {
			w.n.e.StaleLocked(rule, false)
		}
		w.n.e.ChangedLocked(rule, name)
	}
}

// crosses says that what a rule makes of some cluster's objects is too much in so many namespaces, and not in so many others.
func (w *selected) crosses(rule string, before, now int) bool {
	for _, load := range w.loads[rule] {
		if (load.Excess(before) == "") != (load.Excess(now) == "") {
			return true
		}
	}
	return false
}

// Health implements Sink.
func (w *selected) Health(err error) {
	w.n.e.Lock.Lock()
	defer w.n.e.Lock.Unlock()
	if w.n.selected != w || w.live && err == nil {
		return
	}
	w.live, w.err = err == nil, err
	for rule := range w.rules {
		w.n.e.StaleLocked(rule, true)
	}
}
