// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// remembering runs f in virtual time with a Watch of a client that has positions.
func remembering(t *testing.T, prepare func(*api) WatchOptions, f func(*testing.T, *api, *journal, *Positions)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		a, j, p := newAPI(t), &journal{}, NewPositions()
		p.Confirm("an earlier one")
		options := prepare(a)
		stop := a.watchFrom(t, p, options, j)
		f(t, a, j, p)
		stop()
	})
}

// watchFrom starts a Watch of a new client.
func (a *api) watchFrom(t *testing.T, p *Positions, options WatchOptions, j *journal) (stop func()) {
	t.Helper()
	c := a.client(t)
	c.Positions = p
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		_ = c.Watch(ctx, options, j)
		close(done)
	}()
	synctest.Wait()
	return func() {
		cancel()
		<-done
	}
}

// settle waits out an outage and takes what the sink was told since, without what was said of the
// outage itself.
func (j *journal) settle() []string {
	time.Sleep(10 * time.Second)
	synctest.Wait()
	var out []string
	for _, line := range j.take() {
		if !strings.Contains(line, "not reachable") && !strings.Contains(line, "listing again") {
			out = append(out, line)
		}
	}
	return out
}

const restoredLine = "health API server went back in time, as after a restore from a backup; its cluster has not confirmed that yet"

func TestARestoredServerIsNotTakenAtItsWord(t *testing.T) {
	for name, noWatchList := range map[string]bool{"streamed": false, "in pages": true} {
		t.Run(name, func(t *testing.T) {
			remembering(t, threeSecrets, func(t *testing.T, a *api, j *journal, p *Positions) {
				a.put(secret("two", "yes"))
				time.Sleep(time.Second)
				j.take()
				a.set(func() { a.noWatchList = noWatchList })
				a.restore(101, secret("one", "yes"))
				if diff := cmp.Diff([]string{restoredLine}, j.settle()); diff != "" {
					t.Fatalf("after the restore (-want +got):\n%s", diff)
				}
				if !errors.Is(j.lastError(), ErrRestored) {
					t.Errorf("error %v is not ErrRestored", j.lastError())
				}
				// Nor later, when the server has gone on to where it was, nor by what does not confirm.
				a.seen()
				for range 10 {
					a.put(secret("later", "yes"))
				}
				p.Confirm("")
				p.Confirm("an earlier one")
				time.Sleep(time.Hour)
				if lines, requests := j.settle(), a.seen(); len(lines) > 0 || len(requests) > 0 {
					t.Errorf("while it waits: told the sink %v, sent %v", lines, requests)
				}
				p.Confirm("yes, it was me")
				if diff := cmp.Diff([]string{"replace 111: later=yes one=yes", "health <nil>"}, j.settle()); diff != "" {
					t.Fatalf("confirmed (-want +got):\n%s", diff)
				}
				a.remove(secret("one", "yes"))
				synctest.Wait()
				j.want(t, "delete a/one one=yes")
				// Another restore needs another confirmation.
				a.restore(105)
				if diff := cmp.Diff([]string{restoredLine}, j.settle()); diff != "" {
					t.Fatalf("after another restore (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// A server that was written to since, past where it was, has another history; also to a watch that
// cannot be resumed, because a server that starts forbids for a moment what it allows.
func TestARestoreIsNoticedAfterTheServerCaughtUp(t *testing.T) {
	forbidden := map[string]int{"stream": http.StatusForbidden, "list": http.StatusForbidden, "watch": http.StatusForbidden}
	for name, deny := range map[string]map[string]int{"resumed": nil, "listed again": forbidden} {
		t.Run(name, func(t *testing.T) {
			remembering(t, threeSecrets, func(t *testing.T, a *api, j *journal, p *Positions) {
				time.Sleep(time.Second)
				j.take()
				a.set(func() { a.deny = deny })
				a.restore(101, secret("one", "yes"))
				for range 10 {
					a.put(secret("later", "yes"))
				}
				time.Sleep(10 * time.Second)
				a.set(func() { a.deny = nil })
				if lines := j.settle(); lines[len(lines)-1] != restoredLine || slices.ContainsFunc(lines, isStatement) {
					t.Fatalf("after the restore: %v", lines)
				}
				p.Confirm("new")
				if diff := cmp.Diff([]string{"replace 111: later=yes one=yes", "health <nil>"}, j.settle()); diff != "" {
					t.Fatalf("confirmed (-want +got):\n%s", diff)
				}
				// What etcd does not remember proves nothing.
				a.seen()
				a.set(func() { a.oldest = 1000 })
				a.net.cutConnections()
				if lines := j.settle(); j.lastError() != nil {
					t.Errorf("after a compaction: %v", lines)
				}
			})
		})
	}
}

// isStatement tells what the sink was told of objects.
func isStatement(line string) bool { return !strings.HasPrefix(line, "health ") }

func TestPositionsOutliveAClient(t *testing.T) {
	remembering(t, threeSecrets, func(t *testing.T, a *api, _ *journal, p *Positions) {
		a.restore(50)
		other := &journal{}
		stop := a.watchFrom(t, p, WatchOptions{GVK: secretKind}, other)
		defer stop()
		if diff := cmp.Diff([]string{restoredLine}, other.settle()); diff != "" {
			t.Errorf("a new client (-want +got):\n%s", diff)
		}
		// The confirmation may come first; both watches take it.
		p.Confirm("new")
		if diff := cmp.Diff([]string{"replace 50: ", "health <nil>"}, other.settle()); diff != "" {
			t.Errorf("confirmed (-want +got):\n%s", diff)
		}
	})
}

func TestAnOrdinaryOutageIsResumed(t *testing.T) {
	remembering(t, threeSecrets, func(t *testing.T, a *api, j *journal, _ *Positions) {
		time.Sleep(2 * time.Second)
		j.take()
		a.seen()
		a.net.cutConnections()
		a.remove(secret("one", "yes"))
		if diff := cmp.Diff([]string{"delete a/one one=yes"}, j.settle()); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
		if diff := cmp.Diff([]string{"list", "watch"}, a.seen()); diff != "" {
			t.Errorf("requests (-want +got):\n%s", diff)
		}
	})
}

// A server that is trusted is believed at once; that it went back is told first, and once.
func TestATrustedServerThatWentBackIsBelievedAndTold(t *testing.T) {
	remembering(t, threeSecrets, func(t *testing.T, a *api, _ *journal, _ *Positions) {
		j := &journal{}
		p := TrustingPositions(func(schema.GroupVersionKind) bool { j.add("noticed"); return true })
		stop := a.watchFrom(t, p, threeSecrets(a), j)
		defer stop()
		time.Sleep(time.Second)
		j.take()
		a.restore(50, secret("one", "yes"))
		if diff := cmp.Diff([]string{"noticed", "replace 50: one=yes", "health <nil>"}, j.settle()); diff != "" {
			t.Fatalf("behind (-want +got):\n%s", diff)
		}
		a.put(secret("two", "yes"))
		synctest.Wait()
		j.want(t, "upsert two=yes")
		a.restore(40)
		for range 20 {
			a.put(secret("later", "yes"))
		}
		if diff := cmp.Diff([]string{"noticed", "replace 60: later=yes", "health <nil>"}, j.settle()); diff != "" {
			t.Fatalf("caught up (-want +got):\n%s", diff)
		}
		a.net.cutConnections()
		if lines := j.settle(); slices.Contains(lines, "noticed") {
			t.Errorf("an outage was taken for a restore: %v", lines)
		}
	})
}

// One restore is told once, however late the other kinds are read.
func TestARestoreIsToldOnceForAllKinds(t *testing.T) {
	told := 0
	p := TrustingPositions(func(kind schema.GroupVersionKind) bool {
		told++
		return kind.Group == ""
	})
	other := schema.GroupVersionKind{Group: "of-its-own", Version: "v1", Kind: "Thing"}
	node := schema.GroupVersionKind{Version: "v1", Kind: "Node"}
	list := func(kind schema.GroupVersionKind, version string, want int) {
		t.Helper()
		if _, err := p.take(kind, p.now(kind), "", version, witness{}); err != nil || told != want {
			t.Errorf("%s at %s: %v, told %d times, want %d", kind.Kind, version, err, told, want)
		}
	}
	list(secretKind, "100", 0)
	list(node, "100", 0)
	list(secretKind, "50", 1)
	p.wentBack(node, 0)
	list(node, "50", 1)
	p.wentBack(node, p.now(node).era) // another one
	list(node, "60", 2)
	list(secretKind, "40", 2)
	list(secretKind, "30", 3)
	list(other, "9", 3)
	list(other, "8", 4) // which is not to go by
	list(node, "20", 4) // of the third
	list(secretKind, "20", 5)
}

// Two watches of one kind, whose lists and events arrive in any order, do not take each other for a
// restore.
func TestPositionsOfSeveralWatches(t *testing.T) {
	p := NewPositions()
	take := func(asked position, version string, refused bool) position {
		t.Helper()
		at, err := p.take(secretKind, asked, "", version, witness{})
		if errors.Is(err, ErrRestored) != refused {
			t.Errorf("a list of %s: %v", version, err)
		}
		return at
	}
	asked := p.now(secretKind)
	first := take(asked, "100", false)
	p.raise(secretKind, first.era, "120")
	take(asked, "110", false) // it was asked for before the event came
	take(p.now(secretKind), "120", false)
	take(p.now(secretKind), "x", false) // no number, no order
	if at := p.now(secretKind); at.highest != "120" {
		t.Errorf("position %+v", at)
	}
	slow := p.now(secretKind)
	take(p.now(secretKind), "90", true)
	take(p.now(secretKind), "130", true)
	p.raise(secretKind, first.era, "140") // what was on its way
	p.Confirm("a")
	second := take(p.now(secretKind), "91", false)
	take(slow, "92", false)               // asked for before the other one was taken
	p.raise(secretKind, first.era, "150") // what was on its way
	p.raise(secretKind, second.era, "93")
	if at := p.now(secretKind); at.highest != "93" || at.era == first.era {
		t.Errorf("position %+v", at)
	}
	take(p.now(secretKind), "92", true)
	if refused, _ := p.refuses(schema.GroupVersionKind{Version: "v1", Kind: "Node"}); refused {
		t.Error("another kind is refused, too")
	}
	for range 2 * maxConfirmations {
		p.Confirm(strings.Repeat("b", len(p.heard)))
	}
	if len(p.heard) > maxConfirmations {
		t.Errorf("%d confirmations are remembered", len(p.heard))
	}
}
