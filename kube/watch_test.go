// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func pemOf(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

var secretKind = schema.GroupVersionKind{Version: "v1", Kind: "Secret"}

// secret makes a Secret; keepApp chooses by its label app.
func secret(name, app string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Secret",
		"metadata": map[string]any{
			"name": name, "namespace": "a", "uid": "uid-" + name, "labels": map[string]any{"app": app},
			"managedFields": []any{map[string]any{"manager": "m"}},
		},
	}}
}

func keepApp(obj *unstructured.Unstructured) bool { return obj.GetLabels()["app"] == "yes" }

// sinkRecorder is a Sink that records each call as a line.
type sinkRecorder struct {
	mu    sync.Mutex
	lines []string
	err   error
}

func (j *sinkRecorder) add(line string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, line)
}

func (j *sinkRecorder) Replace(objs []*unstructured.Unstructured, resourceVersion string) {
	var names []string
	for _, obj := range objs {
		names = append(names, describe(obj))
	}
	slices.Sort(names)
	j.add("replace " + resourceVersion + ": " + strings.Join(names, " "))
}

func (j *sinkRecorder) Upsert(obj *unstructured.Unstructured) { j.add("upsert " + describe(obj)) }

func (j *sinkRecorder) Delete(namespace, name string, last *unstructured.Unstructured) {
	j.add("delete " + namespace + "/" + name + " " + describe(last))
}

func (j *sinkRecorder) Health(err error) {
	j.mu.Lock()
	j.err = err
	j.mu.Unlock()
	j.add(fmt.Sprintf("health %v", err))
}

func describe(obj *unstructured.Unstructured) string {
	if len(obj.GetManagedFields()) > 0 {
		return obj.GetName() + "+managedFields"
	}
	return obj.GetName() + "=" + obj.GetLabels()["app"]
}

// take returns the lines since the last call.
func (j *sinkRecorder) take() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	out := j.lines
	j.lines = nil
	return out
}

func (j *sinkRecorder) lastError() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.err
}

func (j *sinkRecorder) want(t *testing.T, lines ...string) {
	t.Helper()
	if diff := cmp.Diff(lines, j.take()); diff != "" {
		t.Fatalf("the sink got (-want +got):\n%s", diff)
	}
}

// watching runs f in virtual time during a Watch.
func watching(t *testing.T, prepare func(*api) WatchOptions, f func(*api, *sinkRecorder)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		a, j := newAPI(t), &sinkRecorder{}
		options := prepare(a)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- a.client(t).Watch(ctx, options, j) }()
		synctest.Wait()
		f(a, j)
		cancel()
		synctest.Wait()
		select {
		case err := <-done:
			if !errors.Is(err, context.Canceled) {
				t.Errorf("Watch returned %v", err)
			}
		default:
			t.Error("Watch did not return after its context ended")
		}
	})
}

// threeSecrets creates three Secrets, of which two match.
func threeSecrets(a *api) WatchOptions {
	a.put(secret("one", "yes"))
	a.put(secret("two", "yes"))
	a.put(secret("other", "no"))
	return WatchOptions{GVK: secretKind, Namespace: "a", Keep: keepApp}
}

func TestWatchHandsOnTheListAndEveryChange(t *testing.T) {
	watching(t, threeSecrets, func(a *api, j *sinkRecorder) {
		j.want(t, "replace 103: one=yes two=yes", "health <nil>")
		if diff := cmp.Diff([]string{"/api/v1", "stream"}, a.takeRequests()); diff != "" {
			t.Errorf("requests (-want +got):\n%s", diff)
		}
		a.put(secret("three", "yes"))
		a.put(secret("other", "still not"))
		a.put(secret("one", "no more")) // stops matching: the sink gets it once, with the new content
		a.put(secret("one", "still no"))
		a.put(secret("other", "yes"))
		a.remove(secret("one", "still no")) // the sink does not have it
		a.remove(secret("two", "yes"))
		synctest.Wait()
		j.want(t, "upsert three=yes", "upsert one=no more", "upsert other=yes", "delete a/two two=yes")
		a.put(secret("one", "yes"))
		synctest.Wait()
		j.want(t, "upsert one=yes")
		if got := a.takeRequests(); len(got) > 0 {
			t.Errorf("requests while watching: %v", got)
		}
	})
}

func TestWatchListsInPagesWhereStreamsAreRefused(t *testing.T) {
	watching(t, func(a *api) WatchOptions {
		a.noWatchList = true
		for i := range 2*pageSize + 1 {
			a.put(secret(fmt.Sprintf("s%03d", i), map[bool]string{true: "yes"}[i%100 == 0]))
		}
		return WatchOptions{GVK: secretKind, Keep: keepApp}
	}, func(a *api, j *sinkRecorder) {
		time.Sleep(resumeGrace)
		synctest.Wait()
		j.want(t, "replace 401: s000=yes s100=yes s200=yes s300=yes", "health <nil>")
		if diff := cmp.Diff([]string{"/api/v1", "stream", "list", "list", "list", "watch"}, a.takeRequests()); diff != "" {
			t.Errorf("requests (-want +got):\n%s", diff)
		}
		a.put(secret("s001", "yes"))
		synctest.Wait()
		j.want(t, "upsert s001=yes")
	})
}

func TestWatchResumesWhenTheConnectionIsCut(t *testing.T) {
	watching(t, threeSecrets, func(a *api, j *sinkRecorder) {
		time.Sleep(2 * time.Second) // the reflector lists again when a watch ends at once
		j.take()
		a.takeRequests()
		a.net.setRefuse(true)
		synctest.Wait()
		j.want(t, "health API server not reachable: https://127.0.0.1:6443: connection refused")
		if !errors.Is(j.lastError(), ErrUnreachable) {
			t.Errorf("error %v is not ErrUnreachable", j.lastError())
		}
		time.Sleep(time.Minute)
		a.remove(secret("one", "yes"))
		a.put(secret("three", "yes"))
		a.net.setRefuse(false)
		time.Sleep(6 * time.Second)
		synctest.Wait()
		// The deletion is an event, not concluded from a list.
		j.want(t, "health <nil>", "delete a/one one=yes", "upsert three=yes")
		if diff := cmp.Diff([]string{"list", "watch"}, a.takeRequests()); diff != "" {
			t.Errorf("requests (-want +got):\n%s", diff)
		}
	})
}

func TestWatchEndsWhileNothingAnswers(t *testing.T) {
	watching(t, func(a *api) WatchOptions {
		a.net.setRefuse(true)
		return threeSecrets(a)
	}, func(_ *api, j *sinkRecorder) {
		j.want(t, "health API server not reachable: https://127.0.0.1:6443: connection refused")
		time.Sleep(time.Minute)
		j.want(t)
	})
	watching(t, threeSecrets, func(a *api, _ *sinkRecorder) {
		time.Sleep(2 * time.Second)
		a.net.setRefuse(true)
		time.Sleep(time.Minute)
	})
	watching(t, func(a *api) WatchOptions {
		a.deny = map[string]int{"stream": http.StatusTooManyRequests}
		return threeSecrets(a)
	}, func(*api, *sinkRecorder) { time.Sleep(time.Minute) })
	watching(t, func(a *api) WatchOptions {
		a.net.setSilent(true)
		return threeSecrets(a)
	}, func(*api, *sinkRecorder) {})
}

func TestWatchNoticesASilentServer(t *testing.T) {
	watching(t, threeSecrets, func(a *api, j *sinkRecorder) {
		time.Sleep(time.Hour) // pings keep the connection
		synctest.Wait()
		j.want(t, "replace 103: one=yes two=yes", "health <nil>")
		a.net.setSilent(true)
		start := time.Now()
		for j.lastError() == nil && time.Since(start) < time.Minute {
			time.Sleep(time.Second)
		}
		if took := time.Since(start); took > 41*time.Second {
			t.Errorf("a silent peer was noticed after %s", took)
		}
		j.want(t, "health API server not reachable: https://127.0.0.1:6443: no answer in time")
		a.net.setSilent(false)
		a.put(secret("three", "yes"))
		time.Sleep(20 * time.Second) // one attempt may be under way in the dark
		synctest.Wait()
		j.want(t, "health <nil>", "upsert three=yes")
	})
}

func TestWatchListsAgainAfterExpiry(t *testing.T) {
	watching(t, threeSecrets, func(a *api, j *sinkRecorder) {
		time.Sleep(2 * time.Second)
		j.take()
		a.net.setRefuse(true)
		synctest.Wait()
		a.remove(secret("one", "yes"))
		a.put(secret("two", "no more"))
		a.put(secret("three", "yes"))
		a.expire()
		a.net.setRefuse(false)
		time.Sleep(backoffBase * 5 / 4) // to the reflector's own second attempt, and no longer
		synctest.Wait()
		// A deleted object is not in the list; one that stopped matching is, once.
		j.want(t, "health API server not reachable: https://127.0.0.1:6443: connection refused",
			"health watch ended, listing again", "replace 107: three=yes two=no more", "health <nil>")
		a.put(secret("two", "not at all"))
		synctest.Wait()
		j.want(t)
	})
}

func TestWatchReportsRefusalsAndBacksOff(t *testing.T) {
	for code, class := range map[int]error{http.StatusForbidden: ErrForbidden, http.StatusUnauthorized: ErrUnauthorized} {
		t.Run(http.StatusText(code), func(t *testing.T) {
			watching(t, func(a *api) WatchOptions {
				a.deny = map[string]int{"stream": code, "list": code}
				return threeSecrets(a)
			}, func(a *api, j *sinkRecorder) {
				if lines := j.take(); len(lines) != 1 || !errors.Is(j.lastError(), class) {
					t.Fatalf("the sink got %v, want one %v", lines, class)
				}
				time.Sleep(10 * time.Minute)
				j.want(t) // the same error is not repeated
				if n := len(a.takeRequests()); n > 80 {
					t.Errorf("%d requests in 10 minutes", n)
				}
				a.set(func() { a.deny = nil })
				time.Sleep(40 * time.Second)
				synctest.Wait()
				j.want(t, "replace 103: one=yes two=yes", "health <nil>")
			})
		})
	}
}

func TestWatchIsUnhealthyWhenOnlyTheListIsAllowed(t *testing.T) {
	watching(t, func(a *api) WatchOptions {
		a.deny = map[string]int{"stream": http.StatusForbidden, "watch": http.StatusForbidden}
		return threeSecrets(a)
	}, func(a *api, j *sinkRecorder) {
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		for _, line := range j.take() {
			if line == "health <nil>" {
				t.Fatal("the watch was reported as healthy")
			}
		}
		if n := len(a.takeRequests()); n > 130 {
			t.Errorf("%d requests in 10 minutes", n)
		}
	})
}

func TestWatchReportsThrottlingAtOnce(t *testing.T) {
	watching(t, func(a *api) WatchOptions {
		a.deny = map[string]int{"stream": http.StatusServiceUnavailable, "list": http.StatusServiceUnavailable}
		return threeSecrets(a)
	}, func(_ *api, j *sinkRecorder) {
		// Retry-After says an hour.
		time.Sleep(11 * maxRetryAfter * time.Second)
		synctest.Wait()
		if j.lastError() == nil {
			t.Fatal("a server that refuses service was not reported")
		}
	})
}

func TestWatchFindsAKindThatComesAndGoes(t *testing.T) {
	widget := schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"}
	watching(t, func(*api) WatchOptions { return WatchOptions{GVK: widget} }, func(a *api, j *sinkRecorder) {
		j.want(t, "health kind not served: Widget in example.com/v1")
		if !errors.Is(j.lastError(), ErrKindUnknown) {
			t.Errorf("error %v is not ErrKindUnknown", j.lastError())
		}
		time.Sleep(time.Hour)
		if n := len(a.takeRequests()); n > 140 {
			t.Errorf("%d requests in an hour for a kind that is not served", n)
		}
		a.set(func() { a.widgets = true })
		w := secret("w", "yes")
		w.SetGroupVersionKind(widget)
		a.put(w)
		time.Sleep(40 * time.Second)
		synctest.Wait()
		j.want(t, "replace 101: w=yes", "health <nil>")
		a.set(func() { a.widgets = false })
		a.expire()
		a.net.cutConnections()
		time.Sleep(time.Second)
		synctest.Wait()
		if !errors.Is(j.lastError(), ErrKindUnknown) {
			t.Errorf("error %v is not ErrKindUnknown", j.lastError())
		}
	})
}

// A kind of the core group comes with another version of the API server alone, and is hardly asked for.
func TestWatchHardlyAsksForACoreKind(t *testing.T) {
	missing := schema.GroupVersionKind{Version: "v1", Kind: "Missing"}
	watching(t, func(*api) WatchOptions { return WatchOptions{GVK: missing} }, func(a *api, j *sinkRecorder) {
		j.want(t, "health kind not served: Missing in v1")
		a.takeRequests()
		time.Sleep(10 * time.Hour)
		if n := len(a.takeRequests()); n == 0 || n > 12 {
			t.Errorf("%d requests in ten hours", n)
		}
	})
}

// The watch of CRDs notices a new kind at once, however long it was missing.
func TestWatchFindsAKindWhenItsCRDIsCreated(t *testing.T) {
	widget := schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"}
	watching(t, func(a *api) WatchOptions {
		a.definitions = true
		return WatchOptions{GVK: widget}
	}, func(a *api, j *sinkRecorder) {
		time.Sleep(time.Hour)
		if n := len(a.takeRequests()); n > 40 {
			t.Errorf("%d requests in an hour for a kind that is not served, while CRDs are watched", n)
		}
		definition := func(name string) {
			crd := secret(name, "")
			crd.SetNamespace("")
			crd.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"})
			a.put(crd)
			time.Sleep(time.Millisecond)
			synctest.Wait()
		}
		a.takeRequests()
		definition("others.another-example.com")
		if n := len(a.takeRequests()); n > 0 {
			t.Errorf("%d requests about another group", n)
		}
		for range 1000 {
			definition("gadgets.example.com")
		}
		if n := len(a.takeRequests()); n > 25 {
			t.Errorf("%d requests about a CRD that changed a thousand times in a second", n)
		}
		time.Sleep(time.Minute)
		definition("widgets.example.com")
		a.set(func() { a.widgets = true }) // served a moment after the CRD was created
		time.Sleep(500 * time.Millisecond)
		synctest.Wait()
		j.want(t, "health kind not served: Widget in example.com/v1", "replace 1102: ", "health <nil>")
	})
}

func TestWatchDropsWhatTheServerShouldNotHaveSent(t *testing.T) {
	watching(t, func(a *api) WatchOptions {
		elsewhere := secret("elsewhere", "yes")
		elsewhere.SetNamespace("ab") // the fake's namespaces are prefixes
		a.put(elsewhere)
		return threeSecrets(a)
	}, func(a *api, j *sinkRecorder) {
		elsewhere := secret("elsewhere2", "yes")
		elsewhere.SetNamespace("ab")
		a.put(elsewhere)
		synctest.Wait()
		j.want(t, "replace 104: one=yes two=yes", "health <nil>")
	})
}

func TestWatchRefusesAnIncompleteKind(t *testing.T) {
	c := &Client{}
	if err := c.Watch(t.Context(), WatchOptions{GVK: schema.GroupVersionKind{Kind: "Secret"}}, &sinkRecorder{}); err == nil {
		t.Fatal("a kind without a version was accepted")
	}
}
