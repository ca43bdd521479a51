// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"errors"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// caughtUp restores the server to what it was before "two", and writes to it until it is past where it was.
func (a *api) caughtUp() {
	a.restore(101, secret("one", "yes"))
	for range 10 {
		a.put(secret("later", "yes"))
	}
}

// wantRestored fails when the sink was told anything of the new history.
func (j *journal) wantRestored(t *testing.T) {
	t.Helper()
	if lines := j.settle(); !errors.Is(j.lastError(), ErrRestored) || slices.ContainsFunc(lines, isStatement) {
		t.Errorf("after the restore: %v", lines)
	}
}

// A restored server is at another address as a rule, which takes a new client.
func TestTheHistoryIsComparedByANewClient(t *testing.T) {
	remembering(t, threeSecrets, func(t *testing.T, a *api, _ *journal, p *Positions) {
		a.put(secret("two", "yes"))
		time.Sleep(time.Second)
		a.caughtUp()
		j := &journal{}
		stop := a.watchFrom(t, p, threeSecrets(a), j)
		defer stop()
		j.wantRestored(t)
	})
}

// etcd can be restored so that its revision goes ahead, and nothing before can be read.
func TestALeapAheadIsARestore(t *testing.T) {
	remembering(t, threeSecrets, func(t *testing.T, a *api, j *journal, p *Positions) {
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

// The server stops right after a comparison, and comes back restored.
func TestAComparisonIsForOneList(t *testing.T) {
	remembering(t, threeSecrets, func(t *testing.T, a *api, j *journal, _ *Positions) {
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
				a.caughtUp()
				return true
			}
		})
		a.net.cutConnections()
		j.wantRestored(t)
	})
}

// API servers behind one address may lag behind each other for a moment.
func TestAServerThatLagsIsNotRestored(t *testing.T) {
	remembering(t, threeSecrets, func(t *testing.T, a *api, j *journal, _ *Positions) {
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

// What cannot be asked proves nothing, and holds nothing up.
func TestAnAPIWithoutFieldSelectorsIsListedAgain(t *testing.T) {
	remembering(t, threeSecrets, func(t *testing.T, a *api, j *journal, _ *Positions) {
		time.Sleep(time.Second)
		j.take()
		a.set(func() { a.deny = map[string]int{"list": http.StatusBadRequest} })
		a.net.cutConnections()
		a.expire()
		a.put(secret("new", "yes"))
		if lines := j.settle(); j.lastError() != nil || !slices.ContainsFunc(lines, isStatement) {
			t.Errorf("%v", lines)
		}
	})
}

func TestAKindMadeAgainOutsideNamespaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, j := newAPI(t), &journal{}
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
		stop := a.watchFrom(t, NewPositions(), WatchOptions{GVK: kind}, j)
		defer stop()
		time.Sleep(time.Second)
		a.remove(widget("a", "x"))
		a.set(func() { a.widgets = false })
		a.net.cutConnections()
		time.Sleep(time.Minute)
		a.set(func() { a.widgets, a.flat = true, true })
		a.put(widget("", "y"))
		time.Sleep(time.Hour)
		if lines := j.settle(); j.lastError() != nil || len(lines) == 0 {
			t.Errorf("told the sink %v, last error %v", lines, j.lastError())
		}
	})
}
