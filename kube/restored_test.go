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
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roster-mesh/roster/kube/history"
)

// watchingWithPositions runs f in virtual time with a Watch of a client that has positions.
func watchingWithPositions(t *testing.T, prepare func(*api) WatchOptions, f func(*testing.T, *api, *sinkRecorder, *history.Positions)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		a, j, p := newAPI(t), &sinkRecorder{}, history.NewPositions()
		p.Confirm("an earlier one")
		options := prepare(a)
		stop := a.watchFrom(t, p, options, j)
		f(t, a, j, p)
		stop()
	})
}

// watchFrom starts a Watch of a new client.
func (a *api) watchFrom(t *testing.T, p *history.Positions, options WatchOptions, j *sinkRecorder) (stop func()) {
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

// settle waits until an outage is over and returns the calls of the sink since, without the reports of
// the outage itself.
func (j *sinkRecorder) settle() []string {
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

func TestRestoredServerIsRefused(t *testing.T) {
	for name, noWatchList := range map[string]bool{"streamed": false, "in pages": true} {
		t.Run(name, func(t *testing.T) {
			watchingWithPositions(t, threeSecrets, func(t *testing.T, a *api, j *sinkRecorder, p *history.Positions) {
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
				// Nor later, when the server has caught up, nor by a text that does not confirm.
				a.takeRequests()
				for range 10 {
					a.put(secret("later", "yes"))
				}
				p.Confirm("")
				p.Confirm("an earlier one")
				time.Sleep(time.Hour)
				if lines, requests := j.settle(), a.takeRequests(); len(lines) > 0 || len(requests) > 0 {
					t.Errorf("while it waits: the sink got %v, sent %v", lines, requests)
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

// A restored server that was written to until it caught up has another history. A watch that cannot be
// resumed notices that, too: a server that starts may forbid for a moment what it allows later.
func TestRestoreIsNoticedAfterTheServerCaughtUp(t *testing.T) {
	forbidden := map[string]int{"stream": http.StatusForbidden, "list": http.StatusForbidden, "watch": http.StatusForbidden}
	for name, deny := range map[string]map[string]int{"resumed": nil, "listed again": forbidden} {
		t.Run(name, func(t *testing.T) {
			watchingWithPositions(t, threeSecrets, func(t *testing.T, a *api, j *sinkRecorder, p *history.Positions) {
				time.Sleep(time.Second)
				j.take()
				a.set(func() { a.deny = deny })
				a.restore(101, secret("one", "yes"))
				for range 10 {
					a.put(secret("later", "yes"))
				}
				time.Sleep(10 * time.Second)
				a.set(func() { a.deny = nil })
				if lines := j.settle(); lines[len(lines)-1] != restoredLine || slices.ContainsFunc(lines, isObjectLine) {
					t.Fatalf("after the restore: %v", lines)
				}
				p.Confirm("new")
				if diff := cmp.Diff([]string{"replace 111: later=yes one=yes", "health <nil>"}, j.settle()); diff != "" {
					t.Fatalf("confirmed (-want +got):\n%s", diff)
				}
				// A history that was compacted proves nothing.
				a.takeRequests()
				a.set(func() { a.oldest = 1000 })
				a.net.cutConnections()
				if lines := j.settle(); j.lastError() != nil {
					t.Errorf("after a compaction: %v", lines)
				}
			})
		})
	}
}

// isObjectLine says whether a line is about objects.
func isObjectLine(line string) bool { return !strings.HasPrefix(line, "health ") }

func TestPositionsOutliveAClient(t *testing.T) {
	watchingWithPositions(t, threeSecrets, func(t *testing.T, a *api, _ *sinkRecorder, p *history.Positions) {
		a.restore(50)
		other := &sinkRecorder{}
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

func TestWatchIsResumedAfterAnOutage(t *testing.T) {
	watchingWithPositions(t, threeSecrets, func(t *testing.T, a *api, j *sinkRecorder, _ *history.Positions) {
		time.Sleep(2 * time.Second)
		j.take()
		a.takeRequests()
		a.net.cutConnections()
		a.remove(secret("one", "yes"))
		if diff := cmp.Diff([]string{"delete a/one one=yes"}, j.settle()); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
		if diff := cmp.Diff([]string{"list", "watch"}, a.takeRequests()); diff != "" {
			t.Errorf("requests (-want +got):\n%s", diff)
		}
	})
}

// A restore of a trusted server is reported once, before the sink gets the new list.
func TestRestoreOfATrustedServerIsReported(t *testing.T) {
	watchingWithPositions(t, threeSecrets, func(t *testing.T, a *api, _ *sinkRecorder, _ *history.Positions) {
		j := &sinkRecorder{}
		p := history.TrustingPositions(func(schema.GroupVersionKind) bool { j.add("rolled back"); return true })
		stop := a.watchFrom(t, p, threeSecrets(a), j)
		defer stop()
		time.Sleep(time.Second)
		j.take()
		a.restore(50, secret("one", "yes"))
		if diff := cmp.Diff([]string{"rolled back", "replace 50: one=yes", "health <nil>"}, j.settle()); diff != "" {
			t.Fatalf("behind (-want +got):\n%s", diff)
		}
		a.put(secret("two", "yes"))
		synctest.Wait()
		j.want(t, "upsert two=yes")
		a.restore(40)
		for range 20 {
			a.put(secret("later", "yes"))
		}
		if diff := cmp.Diff([]string{"rolled back", "replace 60: later=yes", "health <nil>"}, j.settle()); diff != "" {
			t.Fatalf("caught up (-want +got):\n%s", diff)
		}
		a.net.cutConnections()
		if lines := j.settle(); slices.Contains(lines, "rolled back") {
			t.Errorf("an outage was taken for a restore: %v", lines)
		}
	})
}

// A restore that one kind proves is one of all kinds. A watch whose newest object is as it was, at a server that has caught
// up since, would otherwise be resumed without what was changed before that.
func TestAllKindsAreListedAfterARestore(t *testing.T) {
	kind := schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"}
	widget := func(app string) *unstructured.Unstructured {
		u := secret("w", app)
		u.SetGroupVersionKind(kind)
		return u
	}
	local := history.TrustingPositions(func(schema.GroupVersionKind) bool { return true })
	for name, c := range map[string]struct {
		p     *history.Positions
		order [2]string
	}{
		"noticed, then resumed": {local, [2]string{"notice", "restore"}},
		"resumed, then noticed": {history.TrustingPositions(nil), [2]string{"restore", "notice"}},
		"of a peer":             {history.NewPositions(), [2]string{"restore", "notice"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, j, p := newAPI(t), &sinkRecorder{}, c.p
				a.widgets = true
				kept := a.put(widget("before"))
				for range 5 {
					a.put(secret("other", "yes"))
				}
				stop := a.watchFrom(t, p, WatchOptions{GVK: kind, Namespace: "a"}, j)
				defer stop()
				time.Sleep(time.Second)
				for _, step := range c.order {
					if step == "notice" {
						p.RollBack(secretKind, p.At(secretKind).Incarnation)
						continue
					}
					a.restore(102, kept)
					a.put(widget("after"))
					for range 10 {
						a.put(secret("other", "yes"))
					}
					time.Sleep(10 * time.Second)
				}
				if lines := j.settle(); j.lastError() != nil || !slices.ContainsFunc(lines, func(line string) bool { return strings.Contains(line, "w=after") }) {
					t.Errorf("the sink got %v, last error %v", lines, j.lastError())
				}
			})
		})
	}
}
