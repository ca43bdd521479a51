// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roster-mesh/roster/kube/history"
)

// restoreAndCatchUp restores the server to the state before "two", and writes to it until it has caught up.
func (a *api) restoreAndCatchUp() {
	a.restore(101, secret("one", "yes"))
	for range 10 {
		a.put(secret("later", "yes"))
	}
}

// wantRestored waits for ErrRestored, and fails when the sink got an object of the restored server.
func (j *sinkRecorder) wantRestored(t *testing.T) {
	t.Helper()
	if lines := j.settle(); !errors.Is(j.lastError(), ErrRestored) || slices.ContainsFunc(lines, isObjectLine) {
		t.Errorf("after the restore: %v", lines)
	}
}

// A restored server is often at another address, and so has a new client.
func TestANewClientComparesTheHistory(t *testing.T) {
	watchingWithPositions(t, threeSecrets, func(t *testing.T, a *api, _ *sinkRecorder, p *history.Positions) {
		a.put(secret("two", "yes"))
		time.Sleep(time.Second)
		a.restoreAndCatchUp()
		j := &sinkRecorder{}
		stop := a.watchFrom(t, p, threeSecrets(a), j)
		defer stop()
		j.wantRestored(t)
	})
}

// etcd can be restored with its revision moved ahead, so that nothing older can be read.
func TestResourceVersionFarAheadIsARestore(t *testing.T) {
	watchingWithPositions(t, threeSecrets, func(t *testing.T, a *api, j *sinkRecorder, p *history.Positions) {
		a.put(secret("two", "yes"))
		time.Sleep(time.Second)
		j.take()
		a.restore(1_000_000_101, secret("one", "yes"))
		a.set(func() { a.oldest = 1_000_000_101 })
		j.wantRestored(t)
		p.Confirm("new")
		if j.settle(); j.lastError() != nil {
			t.Errorf("confirmed: %v", j.lastError())
		}
	})
}

// The server stops right after a comparison, and is restored.
func TestHistoryIsComparedForEachList(t *testing.T) {
	watchingWithPositions(t, threeSecrets, func(t *testing.T, a *api, j *sinkRecorder, _ *history.Positions) {
		a.put(secret("two", "yes"))
		time.Sleep(time.Second)
		j.take()
		done := false
		a.set(func() {
			a.deny = map[string]int{"watch": http.StatusForbidden}
			a.hook = func(verb string) bool {
				if verb != "stream" || done {
					return false
				}
				done = true
				a.restoreAndCatchUp()
				return true
			}
		})
		a.net.cutConnections()
		j.wantRestored(t)
	})
}

// API servers behind one address may lag behind each other for a moment.
func TestLaggingServerIsNotRestored(t *testing.T) {
	watchingWithPositions(t, threeSecrets, func(t *testing.T, a *api, j *sinkRecorder, _ *history.Positions) {
		a.put(secret("two", "yes"))
		a.remove(secret("two", "yes"))
		time.Sleep(time.Second)
		a.set(func() { a.rv-- })
		a.net.cutConnections()
		time.Sleep(500 * time.Millisecond)
		a.set(func() { a.rv++ })
		if j.settle(); j.lastError() != nil {
			t.Error(j.lastError())
		}
	})
}

// An API that cannot be asked proves nothing, and its watch goes on.
func TestAPIWithoutFieldSelectorsIsListedAgain(t *testing.T) {
	watchingWithPositions(t, threeSecrets, func(t *testing.T, a *api, j *sinkRecorder, _ *history.Positions) {
		time.Sleep(time.Second)
		j.take()
		a.set(func() { a.deny = map[string]int{"list": http.StatusBadRequest} })
		a.net.cutConnections()
		a.expire()
		a.put(secret("new", "yes"))
		if lines := j.settle(); j.lastError() != nil || !slices.ContainsFunc(lines, isObjectLine) {
			t.Errorf("%v", lines)
		}
	})
}

// A restore that undoes nothing but a deletion is noticed by the object, which is there as it was.
func TestUndoneDeletionIsNoticed(t *testing.T) {
	for name, deny := range map[string]map[string]int{"resumed": nil, "listed again": {"watch": http.StatusForbidden}} {
		t.Run(name, func(t *testing.T) {
			watchingWithPositions(t, threeSecrets, func(t *testing.T, a *api, j *sinkRecorder, _ *history.Positions) {
				there := maps.Clone(a.objects)
				a.remove(secret("two", "yes"))
				time.Sleep(time.Second)
				j.take()
				a.set(func() { a.deny = deny })
				a.restore(103, slices.Collect(maps.Values(there))...)
				a.put(secret("later", "yes"))
				a.put(secret("later", "yes"))
				j.wantRestored(t)
			})
		})
	}
}

// So is an object that was absent in a list, without an event.
func TestUndoneDeletionAfterAListIsNoticed(t *testing.T) {
	watchingWithPositions(t, threeSecrets, func(t *testing.T, a *api, j *sinkRecorder, _ *history.Positions) {
		there := maps.Clone(a.objects)
		a.set(func() { a.deny = map[string]int{"watch": http.StatusForbidden} })
		a.net.cutConnections()
		a.remove(secret("two", "yes"))
		time.Sleep(time.Minute)
		a.set(func() { a.deny = nil })
		if j.settle(); j.lastError() != nil {
			t.Fatal(j.lastError())
		}
		a.restore(103, slices.Collect(maps.Values(there))...)
		for range 10 {
			a.put(secret("later", "yes"))
		}
		j.wantRestored(t)
	})
}

// An object that does not match the selector of one watch any more is not restored because a watch with another selector
// reports it.
func TestUnselectedObjectIsNotRestored(t *testing.T) {
	prepare := func(a *api) WatchOptions {
		o := threeSecrets(a)
		o.LabelSelector = "app=yes"
		return o
	}
	watchingWithPositions(t, prepare, func(t *testing.T, a *api, j *sinkRecorder, p *history.Positions) {
		all := &sinkRecorder{}
		stop := a.watchFrom(t, p, WatchOptions{GVK: secretKind, Namespace: "a"}, all)
		defer stop()
		a.net.cutConnections()
		a.put(secret("two", "no"))
		a.expire()
		for range 3 {
			time.Sleep(time.Second)
			a.net.cutConnections()
			j.settle()
		}
		if err := errors.Join(j.lastError(), all.lastError()); err != nil {
			t.Error(err)
		}
	})
}

// An object that was deleted and created again is newer than its deletion.
func TestRecreatedObjectIsNotRestored(t *testing.T) {
	watchingWithPositions(t, threeSecrets, func(t *testing.T, a *api, j *sinkRecorder, _ *history.Positions) {
		a.remove(secret("two", "yes"))
		time.Sleep(time.Second)
		a.net.cutConnections()
		a.put(secret("two", "yes"))
		if j.settle(); j.lastError() != nil {
			t.Error(j.lastError())
		}
	})
}

// Where objects cannot be selected by name, the object itself is read: that is not taken for a restore, and a restore is
// still noticed where the object shows it.
func TestAPIThatDoesNotSelectByName(t *testing.T) {
	for _, how := range []string{"refuses", "ignores"} {
		t.Run(how, func(t *testing.T) {
			watchingWithPositions(t, threeSecrets, func(t *testing.T, a *api, j *sinkRecorder, _ *history.Positions) {
				before := maps.Clone(a.objects)
				a.set(func() { a.nameSelectors = how })
				a.put(secret("other", "still not"))
				a.remove(secret("two", "yes"))
				for _, change := range []func(){func() {}, func() { a.remove(secret("other", "no")) }, func() { a.put(secret("other", "no")) }} {
					time.Sleep(time.Second)
					a.net.cutConnections()
					change()
					if j.settle(); j.lastError() != nil {
						t.Fatalf("cut: %v", j.lastError())
					}
				}
				j.take()
				a.restore(103, slices.Collect(maps.Values(before))...)
				for range 10 {
					a.put(secret("later", "yes"))
				}
				j.wantRestored(t)
			})
		})
	}
}

func TestKindRecreatedClusterScoped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, j := newAPI(t), &sinkRecorder{}
		kind := schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"}
		widget := func(namespace, name string) *unstructured.Unstructured {
			u := &unstructured.Unstructured{}
			u.SetGroupVersionKind(kind)
			u.SetNamespace(namespace)
			u.SetName(name)
			return u
		}
		a.widgets = true
		a.put(widget("a", "x"))
		stop := a.watchFrom(t, history.NewPositions(), WatchOptions{GVK: kind}, j)
		defer stop()
		time.Sleep(time.Second)
		a.remove(widget("a", "x"))
		a.set(func() { a.widgets = false })
		a.net.cutConnections()
		time.Sleep(time.Minute)
		a.set(func() { a.widgets, a.widgetsClusterScoped = true, true })
		a.put(widget("", "y"))
		time.Sleep(time.Hour)
		if lines := j.settle(); j.lastError() != nil || len(lines) == 0 {
			t.Errorf("the sink got %v, last error %v", lines, j.lastError())
		}
	})
}

// The CRD is deleted and created again with another scope before discovery is asked.
func TestKindRecreatedAtOnceWithAnotherScope(t *testing.T) {
	for _, clusterScoped := range []bool{true, false} {
		t.Run(fmt.Sprint(clusterScoped), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, j := newAPI(t), &sinkRecorder{}
				kind := schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"}
				widget := func(name string, clusterScoped bool) *unstructured.Unstructured {
					u := &unstructured.Unstructured{}
					u.SetGroupVersionKind(kind)
					u.SetName(name)
					if !clusterScoped {
						u.SetNamespace("a")
					}
					return u
				}
				a.widgets, a.widgetsClusterScoped = true, !clusterScoped
				a.put(widget("x", !clusterScoped))
				stop := a.watchFrom(t, history.NewPositions(), WatchOptions{GVK: kind}, j)
				defer stop()
				time.Sleep(time.Second)
				j.take()
				a.remove(widget("x", !clusterScoped))
				a.set(func() { a.widgetsClusterScoped = clusterScoped })
				a.put(widget("y", clusterScoped))
				lines := j.settle()
				if j.lastError() != nil || !slices.ContainsFunc(lines, func(l string) bool { return strings.Contains(l, "replace") && strings.Contains(l, "y=") }) {
					t.Errorf("the sink got %v, last error %v", lines, j.lastError())
				}
				if !slices.ContainsFunc(lines, func(l string) bool { return strings.Contains(l, ErrKindUnknown.Error()) }) {
					t.Errorf("%v has no ErrKindUnknown", lines)
				}
			})
		})
	}
}
