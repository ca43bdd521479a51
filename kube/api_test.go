// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
)

// api is a fake API server with what the package needs: discovery, and one store of objects with lists,
// pages, watches, streamed lists, expired resourceVersions, and refusals. client-go's own fakes have none
// of those. Its network is in memory, so that tests run in virtual time.
type api struct {
	mu       sync.Mutex
	rv       int
	objects  map[string]*unstructured.Unstructured // by kind/namespace/name
	stored   map[string]*unstructured.Unstructured // before the log
	log      []change
	oldest   int // lower resourceVersions have expired
	changed  chan struct{}
	requests []string
	bodies   []string

	widgets              bool           // whether the kind Widget is served
	definitions          bool           // whether CRDs may be watched
	noWatchList          bool           // whether streamed lists are refused
	deny                 map[string]int // status code by verb
	handle               http.Handler   // handles all other paths
	widgetsClusterScoped bool           // whether Widget is cluster-scoped
	nameSelectors        string         // "refuses" or "ignores" field selectors, as some aggregated APIs do
	hook                 func(verb string) (cut bool)

	net    *fakeNet
	server *httptest.Server
}

type change struct {
	rv    int
	event string
	obj   *unstructured.Unstructured
}

func newAPI(t *testing.T) *api {
	t.Helper()
	a := &api{
		rv: 100, objects: map[string]*unstructured.Unstructured{}, stored: map[string]*unstructured.Unstructured{}, changed: make(chan struct{}), deny: map[string]int{},
		net: &fakeNet{conns: make(chan net.Conn), closed: make(chan struct{})},
	}
	a.server = httptest.NewUnstartedServer(a)
	_ = a.server.Listener.Close()
	a.server.Listener = a.net
	a.server.EnableHTTP2 = true
	a.server.Config.ErrorLog = log.New(io.Discard, "", 0)
	a.server.StartTLS()
	t.Cleanup(func() {
		a.net.cutConnections()
		a.server.Close()
	})
	return a
}

func (a *api) config() *rest.Config {
	return withDefaults(&rest.Config{
		Host: "https://127.0.0.1:6443", BearerToken: "t", Dial: a.net.dial,
		ContentConfig:   rest.ContentConfig{ContentType: "application/json"}, // typed clients would speak protobuf
		TLSClientConfig: rest.TLSClientConfig{CAData: pemOf(a.server.Certificate().Raw)},
	})
}

func (a *api) client(t *testing.T) *Client {
	t.Helper()
	c, err := NewClient(a.config())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func key(obj *unstructured.Unstructured) string {
	return obj.GetKind() + "/" + obj.GetNamespace() + "/" + obj.GetName()
}

// put creates or changes an object.
func (a *api) put(obj *unstructured.Unstructured) *unstructured.Unstructured {
	a.mu.Lock()
	defer a.mu.Unlock()
	obj = obj.DeepCopy()
	event := "ADDED"
	if a.objects[key(obj)] != nil {
		event = "MODIFIED"
	}
	a.recordLocked(event, obj)
	a.objects[key(obj)] = obj
	return obj
}

func (a *api) remove(obj *unstructured.Unstructured) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.objects, key(obj))
	a.recordLocked("DELETED", obj.DeepCopy())
}

func (a *api) recordLocked(event string, obj *unstructured.Unstructured) {
	a.rv++
	obj.SetResourceVersion(strconv.Itoa(a.rv))
	a.log = append(a.log, change{a.rv, event, obj})
	close(a.changed)
	a.changed = make(chan struct{})
}

// expire makes all resourceVersions expire, as compaction does.
func (a *api) expire() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.oldest = a.rv + 1
	a.rv++
}

// restore is an outage after which the server has only objs, and its next resourceVersion comes after rv. A client that
// connects again at once finds the restored state.
func (a *api) restore(rv int, objs ...*unstructured.Unstructured) {
	a.set(func() {
		a.net.cutConnections()
		a.rv, a.log, a.objects = rv, nil, map[string]*unstructured.Unstructured{}
		for _, obj := range objs {
			a.objects[key(obj)] = obj
		}
		a.stored = maps.Clone(a.objects)
	})
}

// set changes a behaviour.
func (a *api) set(change func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	change()
}

// takeRequests returns the requests since the last call.
func (a *api) takeRequests() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := a.requests
	a.requests, a.bodies = nil, nil
	return out
}
