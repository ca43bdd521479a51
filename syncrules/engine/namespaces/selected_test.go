// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package namespaces

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/syncrules/engine/place"
	"github.com/roster-mesh/roster/syncrules/fanout"
)

// engine notes what it is told.
type engine struct {
	*Namespaces
	sink place.Sink
	told []string
}

func newEngine(t *testing.T, rules ...string) *engine {
	t.Helper()
	e := &engine{}
	e.Namespaces = New(Engine{
		Lock: &sync.Mutex{}, Log: slog.New(slog.DiscardHandler), SuperviseSoon: func() {}, RetryLocked: func(place.Key, string) {},
		ChangedLocked: func(rule, namespace string) { e.told = append(e.told, rule+" "+namespace) },
		StaleLocked:   func(rule string, uncounted bool) { e.told = append(e.told, fmt.Sprintf("%s %t", rule, uncounted)) },
	})
	for _, rule := range rules {
		e.SelectLocked(rule, selector(t, map[string]string{rule: "yes"}))
	}
	e.supervise(true)
	return e
}

func selector(t *testing.T, labels map[string]string) *fanout.Selector {
	t.Helper()
	s, errs := fanout.Compile(field.NewPath("spec"), &v1alpha1.ResourceSyncRuleSpec{TargetNamespaces: &v1alpha1.NamespaceSelector{
		LabelSelector: metav1.LabelSelector{MatchLabels: labels},
	}})
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	return s
}

// supervise is called with what is in force.
func (e *engine) supervise(selects bool) {
	e.SuperviseLocked(func(_ place.Scope, sink place.Sink) func() {
		e.sink = sink
		return func() { e.sink = nil }
	}, false, selects)
}

// wantTold compares what the engine was told since, in any order.
func (e *engine) wantTold(t *testing.T, want ...string) {
	t.Helper()
	slices.Sort(e.told)
	if slices.Sort(want); !slices.Equal(e.told, want) {
		t.Errorf("told %q, want %q", e.told, want)
	}
	e.told = nil
}

func (e *engine) wantAnswer(t *testing.T, rule, namespace string, want fanout.Answer, proven bool) {
	t.Helper()
	if answer, seen := e.AnswerLocked(rule, namespace); answer != want || seen != proven {
		t.Errorf("rule %s, namespace %s: %d, %t; want %d, %t", rule, namespace, answer, seen, want, proven)
	}
}

// namespace has the labels of the rules that are to select it.
func namespace(name string, rules ...string) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{Object: map[string]any{}}
	obj.SetName(name)
	labels := map[string]string{"name": name}
	for _, rule := range rules {
		labels[rule] = "yes"
	}
	obj.SetLabels(labels)
	return obj
}

func TestNothingIsKnownBeforeAList(t *testing.T) {
	e := newEngine(t, "a", "b")
	e.wantAnswer(t, "a", "one", fanout.Unknown, false)
	e.sink.Upsert(namespace("one", "b")) // before the list
	e.wantAnswer(t, "b", "one", fanout.Unknown, false)
	e.sink.Replace([]*unstructured.Unstructured{namespace("one", "a"), namespace("two")}, "1")
	e.wantTold(t, "a true")
	e.wantAnswer(t, "a", "one", fanout.Yes, false)
	e.wantAnswer(t, "a", "two", fanout.Unknown, false) // the watch is not live yet
	e.sink.Health(nil)
	e.sink.Health(nil)
	e.wantTold(t, "a true", "b true")
	e.wantAnswer(t, "a", "two", fanout.No, false)
	e.wantAnswer(t, "a", "three", fanout.Unknown, false)
	e.wantAnswer(t, "none", "one", fanout.Unknown, false)
	e.sink.Health(errors.New("gone"))
	e.wantTold(t, "a true", "b true")
	e.wantAnswer(t, "a", "one", fanout.Yes, false)
	e.wantAnswer(t, "a", "two", fanout.Unknown, false)
}

func TestWhatIsSeenIsProof(t *testing.T) {
	e := newEngine(t, "a", "b")
	e.sink.Replace([]*unstructured.Unstructured{namespace("one", "a", "b"), namespace("two", "a")}, "1")
	e.sink.Health(nil)
	e.told = nil
	e.sink.Upsert(namespace("one", "b"))
	e.wantTold(t, "a one")
	e.wantAnswer(t, "a", "one", fanout.No, true)
	e.wantAnswer(t, "b", "one", fanout.Yes, false)
	e.sink.Replace([]*unstructured.Unstructured{namespace("one", "b"), namespace("two")}, "2")
	e.wantTold(t, "a true")
	e.wantAnswer(t, "a", "one", fanout.No, true) // as it was
	e.wantAnswer(t, "a", "two", fanout.No, false)
	e.sink.Upsert(namespace("two", "b")) // that it ceased was not seen
	e.wantAnswer(t, "a", "two", fanout.No, false)
	e.told = nil
	ends := namespace("one", "b")
	ends.SetDeletionTimestamp(&metav1.Time{})
	ends.Object["metadata"].(map[string]any)["deletionTimestamp"] = "2026-01-01T00:00:00Z"
	e.sink.Upsert(ends)
	e.wantTold(t, "a one", "b one")
	e.wantAnswer(t, "b", "one", fanout.Unknown, false)
	e.sink.Delete("", "one", ends)
	e.sink.Upsert(namespace("one", "a"))
	e.wantTold(t, "a one", "b one")
	e.wantAnswer(t, "b", "one", fanout.No, false)
	e.e.GuardLive = true
	e.sink.Upsert(namespace("one"))
	e.wantTold(t, "a one")
	e.wantAnswer(t, "a", "one", fanout.No, false)
}

// Copies in a namespace that was not known, and is not selected, are to be looked at, whether it is seen or listed.
func TestANamespaceThatBecomesKnown(t *testing.T) {
	e := newEngine(t, "a")
	e.sink.Replace(nil, "1")
	e.sink.Health(nil)
	e.told = nil
	e.sink.Upsert(namespace("one"))
	e.wantTold(t, "a one")
	e.sink.Upsert(namespace("one", "b"))
	e.sink.Replace([]*unstructured.Unstructured{namespace("one")}, "2")
	e.wantTold(t)
	e.sink.Replace([]*unstructured.Unstructured{namespace("one"), namespace("two")}, "3")
	e.wantTold(t, "a true")
	e.wantAnswer(t, "a", "two", fanout.No, false)
}

// An edit of the rule that leaves its selector as it is leaves the proof. Selectors are compared, not what is told of them.
func TestProofOutlivesAnEditOfTheRule(t *testing.T) {
	e := newEngine(t)
	many := map[string]string{"a": "yes"}
	for i := range 60 {
		many[fmt.Sprintf("key-%02d", i)] = strings.Repeat("v", 50)
	}
	e.SelectLocked("a", selector(t, many))
	one := namespace("one")
	one.SetLabels(many)
	e.sink.Replace([]*unstructured.Unstructured{one}, "1")
	e.sink.Health(nil)
	e.wantAnswer(t, "a", "one", fanout.Yes, false)
	e.sink.Upsert(namespace("one"))
	e.wantAnswer(t, "a", "one", fanout.No, true)
	e.SelectLocked("a", selector(t, many))
	e.wantAnswer(t, "a", "one", fanout.No, true)
	many["key-59"] = "other"
	e.SelectLocked("a", selector(t, many))
	e.wantAnswer(t, "a", "one", fanout.No, false)
	e.SelectLocked("a", nil)
	e.wantAnswer(t, "a", "one", fanout.Unknown, false)
}

func TestTooManyCopies(t *testing.T) {
	e := newEngine(t, "a")
	e.sink.Replace([]*unstructured.Unstructured{namespace("one", "a"), namespace("two", "a")}, "1")
	e.sink.Health(nil)
	e.told = nil
	in := func(cluster string) int { return len(slices.Collect(e.InLocked("a", cluster))) }
	count := func(objects int, bytes int64) {
		e.CountLocked("a", "paris", fanout.Load{Objects: objects, Bytes: bytes})
	}
	count(fanout.MaxCopies/2, 0)
	if e.wantTold(t); in("paris") != 2 {
		t.Errorf("%d namespaces", in("paris"))
	}
	count(1, 0)
	e.wantTold(t, "a false")
	if text := e.TooManyLocked("a", "paris"); in("paris") != 0 || in("tokyo") != 2 || !strings.Contains(text, "10002 copies, of 5001 objects in 2 namespaces each") {
		t.Errorf("%d and %d namespaces, %q", in("paris"), in("tokyo"), text)
	}
	e.sink.Upsert(namespace("two"))
	e.wantTold(t, "a false", "a two")
	e.sink.Upsert(namespace("two", "a"))
	e.wantTold(t, "a false", "a two")
	count(-1, 0)
	e.wantTold(t, "a false")
	count(1-fanout.MaxCopies/2, fanout.MaxBytes/2)
	e.wantTold(t)
	count(0, 1)
	e.wantTold(t, "a false")
	if text := e.TooManyLocked("a", "paris"); in("paris") != 0 || !strings.Contains(text, "copies of 128 MiB, of 1 objects with 65536 KiB in 2 namespaces each, and 128 MiB is most") {
		t.Errorf("%d namespaces, %q", in("paris"), text)
	}
	count(-1, -1-fanout.MaxBytes/2)
	if e.wantTold(t, "a false"); len(e.selected.loads) != 0 {
		t.Errorf("%v", e.selected.loads)
	}
}

// Without a rule in force there is no watch, and what it knew is forgotten; what was counted is not.
func TestNamespacesAreWatchedWhileSomebodyNeedsIt(t *testing.T) {
	e := newEngine(t, "a")
	late := e.sink
	e.CountLocked("a", "paris", fanout.Load{Objects: 1})
	late.Replace([]*unstructured.Unstructured{namespace("one", "a")}, "1")
	late.Health(nil)
	e.supervise(false)
	if live, err := e.KnownLocked(); e.sink != nil || live || err != nil || !e.AnyLocked() {
		t.Errorf("watched %t, live %t, %v", e.sink != nil, live, err)
	}
	e.told = nil
	late.Upsert(namespace("two", "a"))
	late.Replace(nil, "2")
	late.Health(errors.New("gone"))
	e.wantTold(t)
	e.wantAnswer(t, "a", "one", fanout.Unknown, false)
	e.supervise(true)
	e.sink.Replace([]*unstructured.Unstructured{namespace("three", "a")}, "3")
	if names := slices.Collect(maps.Keys(e.selected.rules["a"].names)); !slices.Equal(names, []string{"three"}) || e.selected.loads["a"]["paris"].Objects != 1 {
		t.Errorf("namespaces %v, %v", names, e.selected.loads)
	}
	e.SelectLocked("a", nil)
	if e.AnyLocked() || e.ExplainLocked("a", "three") != "" || e.TooManyLocked("a", "paris") != "" {
		t.Errorf("%v", e.selected.rules)
	}
}
