// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package conflicts

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/syncrules"
	"github.com/roster-mesh/roster/syncrules/engine/fingerprint"
	"github.com/roster-mesh/roster/syncrules/engine/inforce"
	"github.com/roster-mesh/roster/syncrules/engine/place"
	"github.com/roster-mesh/roster/syncrules/engine/verdict"
)

// engine notes what it is told.
type engine struct {
	*Conflicts
	open  map[place.Scope]watching
	told  []string
	asked int // for rules
}

type watching struct {
	place.Sink
	keep func(*unstructured.Unstructured) bool
}

func newEngine() *engine {
	e := &engine{open: map[place.Scope]watching{}}
	e.Conflicts = New(Engine{
		Lock: &sync.Mutex{}, SuperviseSoon: func() {}, EnqueueLocked: func(k place.Key) { e.told = append(e.told, k.Name) },
	}, fingerprint.New())
	return e
}

// supervise is called with what is in force.
func (e *engine) supervise(rules ...Rule) {
	asked := func(yield func(Rule) bool) {
		e.asked++
		slices.Values(rules)(yield)
	}
	e.SuperviseLocked(asked, inforce.Admissions{}, func(s place.Scope, keep func(*unstructured.Unstructured) bool, sink place.Sink) func() {
		e.open[s] = watching{sink, keep}
		return func() { delete(e.open, s) }
	})
}

// found has an object be in the way that is not what is offered.
func (e *engine) found(obj *unstructured.Unstructured) (watched bool) {
	return e.FoundLocked(key(obj.GetName()), kind(), obj, syncrules.PlanForeign([]string{offers()[0].Origin}), offers())
}

// wantTold compares what was put up since, in any order.
func (e *engine) wantTold(t *testing.T, want ...string) {
	t.Helper()
	slices.Sort(e.told)
	if !slices.Equal(e.told, want) {
		t.Errorf("put up %q, want %q", e.told, want)
	}
	e.told = nil
}

// only is the one watch that is open.
func (e *engine) only(t *testing.T) (place.Scope, watching) {
	t.Helper()
	if len(e.open) != 1 {
		t.Fatalf("watches %v", slices.Collect(maps.Keys(e.open)))
	}
	for s, w := range e.open {
		return s, w
	}
	panic("not reached")
}

func kind() schema.GroupVersionKind { return schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"} }

func key(name string) place.Key {
	return place.Key{GroupKind: kind().GroupKind(), Namespace: "default", Name: name}
}

func offers() []verdict.Offer { return []verdict.Offer{{Origin: "a", Content: 1}} }

func configMap(name, value string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"namespace": "default", "name": name}, "data": map[string]any{"v": value},
	}}
}

// everything is a rule that selects all objects of the kind.
func everything(t *testing.T) Rule {
	t.Helper()
	r, err := syncrules.Compile(&v1alpha1.ResourceSyncRule{
		ObjectMeta: metav1.ObjectMeta{Name: "r"},
		Spec: v1alpha1.ResourceSyncRuleSpec{
			GVK:   v1alpha1.GroupVersionKind{Version: "v1", Kind: "ConfigMap"},
			Rules: []v1alpha1.SyncRule{{}},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return Rule{Scopes: []place.Scope{{GVK: kind()}}, Form: r}
}

// One object in the way is watched by itself, and put up when it is another one or gone.
func TestOneInTheWay(t *testing.T) {
	e := newEngine()
	if e.found(configMap("x", "mine")) {
		t.Error("it is watched before anybody looked after that")
	}
	e.supervise()
	s, w := e.only(t)
	if s != (place.Scope{GVK: kind(), Namespace: "default", FieldSelector: "metadata.name=x"}) || e.asked > 0 {
		t.Errorf("watched: %+v; rules were asked for %d times", s, e.asked)
	}
	w.Upsert(configMap("x", "mine"))
	e.wantTold(t)
	if known, noted := e.KnownLocked(key("x"), offers); !noted || !known.Judged || known.Recheck != 0 || known.Verdict.Action != syncrules.Conflict {
		t.Errorf("known: %+v, %t", known, noted)
	}
	w.Upsert(configMap("x", "other"))
	e.wantTold(t, "x")
	if known, noted := e.KnownLocked(key("x"), offers); !noted || known.Judged {
		t.Errorf("known of another one: %+v, %t", known, noted)
	}
	w.Delete("default", "x", nil)
	e.wantTold(t, "x")
	if e.ClearLocked(key("x")); len(e.open) > 0 {
		t.Error("the watch stays open")
	}
	if _, noted := e.KnownLocked(key("x"), offers); noted {
		t.Error("it stays in the way")
	}
	w.Upsert(configMap("x", "late"))
	e.wantTold(t)
}

// Where a kind has many, what rules select is watched instead, as long as the rules are the same.
func TestManyInTheWay(t *testing.T) {
	e, r := newEngine(), everything(t)
	var objs []*unstructured.Unstructured
	for i := range MaxObjectWatches + 1 {
		objs = append(objs, configMap(fmt.Sprintf("x%02d", i), "mine"))
		e.found(objs[i])
	}
	e.supervise(r)
	scope := r.Scopes[0].WithoutCopies()
	first := e.open[scope]
	if len(e.open) != 1+MaxObjectWatches || e.WatchesLocked() != 1 || first.keep == nil {
		t.Fatalf("%d watches are open, %d of scopes", len(e.open), e.WatchesLocked())
	}
	copied := configMap("x00", "1")
	copied.SetLabels(map[string]string{v1alpha1.LabelOwnerClusterID: "a"})
	if !first.keep(objs[0]) || first.keep(copied) {
		t.Error("it does not keep what a source has, or keeps copies")
	}
	first.Replace(objs, "1")
	e.wantTold(t)
	if _, only := e.only(t); only.Sink != first.Sink {
		t.Error("objects are still watched one by one")
	}
	e.supervise(r)
	if first.Upsert(configMap("x03", "other")); e.open[scope].Sink != first.Sink {
		t.Error("the watch was opened anew")
	}
	e.wantTold(t, "x03")
	e.supervise(everything(t)) // an edit
	if now := e.open[scope].Sink; now == nil || now == first.Sink {
		t.Error("a rule is asked that is not in force any more")
	}
	first.Upsert(configMap("x03", "late"))
	e.wantTold(t)
	e.supervise()
	if e.WatchesLocked() > 0 || len(e.open) != MaxObjectWatches {
		t.Errorf("%d watches are open, %d of scopes", len(e.open), e.WatchesLocked())
	}
}

// That nothing is there is believed while something would be seen, and else for a while.
func TestNothingInTheWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, r := newEngine(), everything(t)
		for i := range MaxObjectWatches + 1 {
			e.found(configMap(fmt.Sprint("x", i), "mine"))
		}
		if e.MissedLocked(key("y"), kind()) {
			t.Error("it would be seen without a watch")
		}
		e.supervise(r)
		time.Sleep(time.Minute)
		if known, _ := e.KnownLocked(key("y"), offers); !known.Absent || known.Recheck != Retry-time.Minute {
			t.Errorf("after a minute: %+v", known)
		}
		w := e.open[r.Scopes[0].WithoutCopies()]
		w.Health(nil)
		if known, _ := e.KnownLocked(key("y"), offers); !known.Absent || known.Recheck != 0 || !e.MissedLocked(key("y"), kind()) {
			t.Errorf("while it would be seen: %+v", known)
		}
		w.Health(errors.New("away"))
		time.Sleep(Retry)
		if known, _ := e.KnownLocked(key("y"), offers); known.Absent {
			t.Errorf("much later: %+v", known)
		}
	})
}
