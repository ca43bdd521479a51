// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/syncrules/engine/bounds"
	"github.com/roster-mesh/roster/syncrules/engine/place"
	"github.com/roster-mesh/roster/syncrules/engine/selections"
)

// costs is an engine without workers, that one cluster is asked for what rules select. places bounds what these take; 0 is the default.
type costs struct {
	e              *Engine
	target         *server
	source         *feed
	copies         *copyFeed
	locks, matches atomic.Int64
}

func newCosts(t *testing.T, places int64, rules ...*v1alpha1.ResourceSyncRule) *costs {
	t.Helper()
	c := &costs{target: newServer("default")}
	e, err := New(Options{LocalClusterID: here, Local: &silent{}, Target: c.target, Bounds: bounds.Bounds{Places: places}, Cluster: func() *v1alpha1.Cluster { return nil }})
	if err != nil {
		t.Fatal(err)
	}
	c.e, e.mu.taken, e.rules.asked = e, &c.locks, &c.matches
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		group.Wait()
		e.queue.ShutDown()
	})
	e.queue.Open()
	for _, r := range rules {
		e.SetRule(r, nil)
	}
	e.SetPeer(Peer{ClusterID: a, Source: &silent{}, FeaturesKnown: true})
	e.Ready()
	e.supervise(ctx, &group)
	for _, w := range e.local.watches {
		c.copies = w.feed
	}
	c.copies.Replace(nil, "1")
	c.copies.Health(nil)
	for _, v := range e.views.byPeer[a] {
		c.source = v.feed
	}
	c.source.Replace(nil, "1")
	c.source.Health(nil)
	e.supervise(ctx, &group)
	return c
}

// A rule is asked once about an update of a source, and the lock is taken four times until its copy is written and the watch
// has told of that: by the view, to gather, to record, and by the watch of copies.
func TestCostOfACopy(t *testing.T) {
	c := newCosts(t, 0, testRule("r"))
	source := c.source
	update := func(version, value string) (int64, int64) {
		t.Helper()
		c.locks.Store(0)
		c.matches.Store(0)
		obj := configMap("x", value)
		obj.SetResourceVersion(version)
		if !source.keep(obj) {
			t.Fatal("the rule does not select it")
		}
		source.Upsert(obj)
		k, _ := c.e.queue.Get()
		c.e.process(t.Context(), k)
		c.e.queue.Done(k)
		written := c.target.find(cm("x"))
		if written == nil || written.Object["data"].(map[string]any)["v"] != value {
			t.Fatalf("the copy is %v", written)
		}
		c.copies.Upsert(written)
		return c.locks.Load(), c.matches.Load()
	}
	for i, value := range []string{"created", "updated", "updated again"} {
		locks, matches := update(string('5'+rune(i)), value)
		if locks > 4 || matches != 1 {
			t.Errorf("%s: the lock was taken %d times, want at most 4; it was matched %d times, want once", value, locks, matches)
		}
	}
	// A Source may hand over another object than the one that it asked about.
	c.matches.Store(0)
	asked, other := configMap("y", "1"), configMap("y", "1")
	asked.SetResourceVersion("10")
	other.SetResourceVersion("11")
	other.SetNamespace("other")
	if !source.keep(asked) {
		t.Fatal("the rule does not select it")
	}
	source.Upsert(other)
	source.Upsert(asked)
	if n := c.matches.Load(); n != 2 {
		t.Errorf("matched %d times, want twice: when it was asked about, and when it was handed over after another one", n)
	}
	if _, known := source.v.entries[place.NameOf(other)]; known || len(source.v.entries) != 2 {
		t.Errorf("%d entries", len(source.v.entries))
	}
}

// Every rule is asked once about each object of a list and about each update. Those up to the first that selects an object
// of a list are asked once more, when the Source asks whether to keep it.
func TestCostOfManyRules(t *testing.T) {
	const rules, refusing = 5, 2
	var all []*v1alpha1.ResourceSyncRule
	for i := range rules {
		r := testRule(fmt.Sprint("r", i))
		if i < refusing {
			r.Spec.Rules[0].Matches[0].Annotations = []v1alpha1.AnnotationSelector{{MatchAnnotations: map[string]string{"no": "such"}}}
		}
		all = append(all, r)
	}
	c := newCosts(t, 0, all...)
	want := func(n int64) {
		t.Helper()
		if got := c.matches.Swap(0); got != n {
			t.Errorf("rules were asked %d times, want %d", got, n)
		}
	}
	keep := func(name, version string) *unstructured.Unstructured {
		t.Helper()
		obj := configMap(name, version)
		obj.SetResourceVersion(version)
		if !c.source.keep(obj) {
			t.Error("the rules do not select it")
		}
		return obj
	}
	c.matches.Store(0)
	x, y := keep("x", "1"), keep("y", "2")
	want(2 * (refusing + 1))
	c.source.Replace([]*unstructured.Unstructured{x, y}, "2")
	want(2 * rules)
	c.source.Upsert(keep("x", "3"))
	want(rules)
	for at, ent := range c.source.v.entries {
		if !slices.Equal(ent.rules, []string{"r2", "r3", "r4"}) {
			t.Errorf("%s is selected by %q", at, ent.rules)
		}
	}

	x = keep("x", "4")
	if other := configMap("kube-root-ca.crt", "1"); c.source.keep(other) {
		t.Error("what every cluster has of its own is kept")
	}
	c.matches.Store(0)
	c.source.Upsert(x)
	want(rules) // what was remembered is of another object
	keep("x", "5")
	c.matches.Store(0)
	newer := configMap("x", "6")
	newer.SetResourceVersion("6")
	c.source.Upsert(newer)
	want(rules) // or of another version
}

// A rule that there is no room for is not asked any more whether it selects an object that is kept: neither about the rest of the list that was too much, nor
// about updates, nor about another list.
func TestCostOfRulesWithoutRoom(t *testing.T) {
	const rules, objects, room = 50, 1000, 2
	var all []*v1alpha1.ResourceSyncRule
	for i := range rules {
		all = append(all, moving(testRule(fmt.Sprintf("r%02d", i)), "name", fmt.Sprintf("to-%d-{{ .Object.GetName }}", i)))
	}
	c := newCosts(t, room*objects*selections.PerPlace+rules*selections.PerPlace, all...)
	list := func() (list []*unstructured.Unstructured) {
		for i := range objects {
			list = append(list, configMap(fmt.Sprint("x", i), "1"))
		}
		return list
	}
	c.matches.Store(0)
	c.source.Replace(list(), "2")
	if n := c.matches.Load(); n > 10*room*objects {
		t.Errorf("rules were asked %d times about a list of %d objects, of which there is room for what %d rules select", n, objects, room)
	}
	left := int64(len(c.source.judges))
	if left == 0 || left > room {
		t.Fatalf("%d rules have room, want %d", left, room)
	}
	c.matches.Store(0)
	c.source.Upsert(configMap("x1", "2"))
	if n := c.matches.Load(); n > left+1 {
		t.Errorf("rules were asked %d times about an update; %d have room", n, left)
	}
	if ent := c.source.v.entries[place.NameOf(configMap("x1", ""))]; ent == nil || int64(len(ent.rules)) != left {
		t.Errorf("the entry is %+v", ent)
	}
	c.matches.Store(0)
	c.source.Replace(list(), "3")
	if n := c.matches.Load(); n > (left+1)*objects {
		t.Errorf("rules were asked %d times about another list; %d have room", n, left)
	}
}

// An object that no rule with room selects any more is not gone while one selects it that there is no room for: nothing proves that to this one. It is gone when
// none does.
func TestWhatOnlyRulesWithoutRoomSelectIsNotGone(t *testing.T) {
	const rules, objects = 20, 100
	all := []*v1alpha1.ResourceSyncRule{testRule("a", "x", "y")}
	all[0].Spec.Rules[0].Matches[0].Annotations = []v1alpha1.AnnotationSelector{{MatchAnnotations: map[string]string{"selected": "here"}}}
	for i := range rules {
		all = append(all, moving(testRule(fmt.Sprintf("r%02d", i)), "name", fmt.Sprintf("to-%d-{{ .Object.GetName }}", i)))
	}
	c := newCosts(t, 16<<10, all...)
	object := func(name string, annotations map[string]string) *unstructured.Unstructured {
		u := configMap(name, "1")
		u.SetAnnotations(annotations)
		return u
	}
	here := map[string]string{"selected": "here"}
	list := []*unstructured.Unstructured{object("x", here), object("y", here)}
	for i := range objects {
		list = append(list, configMap(fmt.Sprint("z", i), "1"))
	}
	c.source.Replace(list, "2")
	if len(c.source.judges) != 1 || c.source.leavesOut("a") {
		t.Fatalf("%v have room, want a", c.source.judges)
	}
	for range 2 {
		k, _ := c.e.queue.Get()
		c.e.process(t.Context(), k)
		c.e.queue.Done(k)
		c.copies.Upsert(c.target.find(k))
	}
	v, x := c.source.v, place.NameOf(list[0])
	c.source.Upsert(object("x", nil))
	if v.entries[x] != nil || v.gone.Has(x, cm("x")) {
		t.Error("what only rules without room select counts as gone")
	}
	if c.source.Upsert(object("x", here)); v.entries[x] == nil {
		t.Error("x is not selected any more")
	}
	c.source.Delete(x.Namespace, x.Name, nil)
	if v.entries[x] != nil || !v.gone.Has(x, cm("x")) {
		t.Error("what is deleted does not count as gone")
	}
	c.source.Replace([]*unstructured.Unstructured{object("x", nil), object("y", here)}, "3")
	if v.entries[x] != nil || v.gone.Has(x, cm("x")) {
		t.Error("what a list has again, and only rules without room select, counts as gone")
	}
}
