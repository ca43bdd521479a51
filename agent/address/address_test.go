// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package address

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"k8s.io/client-go/rest"

	"github.com/roster-mesh/roster/agent/health"
	"github.com/roster-mesh/roster/kube"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// notified is an address that counts how often Changed was called.
type notified struct {
	*Address
	health   *health.Health
	problems health.Problems
	log      strings.Builder
	changes  int
}

func newNotified(o Options) *notified {
	t := &notified{health: health.New()}
	t.health.Ready()
	o.Health, o.Problem, o.Log = t.health, t.problems.Reporter("address"), slog.New(slog.NewTextHandler(&t.log, nil))
	if o.Listening == nil {
		o.Listening = func() net.Addr { return &net.TCPAddr{IP: net.IPv4(10, 0, 0, 9), Port: 7946} }
	}
	t.Address = New(o)
	t.Hooks.Changed = func() { t.changes++ }
	return t
}

// set updates the Service.
func (t *notified) set(now *kube.Service) {
	t.observe(func(k *known) { k.asked, k.service = true, now })
}

var balanced = ingress(kube.Ingress{IP: "203.0.113.7"})

// The last known address is kept when the Service loses it.
func TestLastAddressIsKept(t *testing.T) {
	var k known
	start := time.Unix(0, 0)
	set := func(at time.Time, now *kube.Service) bool {
		k.asked, k.service = true, now
		return k.update(at)
	}
	if set(start, service("LoadBalancer")) {
		t.Error("Changed is called though nothing is known")
	}
	if k.missing == nil || !k.since.Equal(start) {
		t.Errorf("missing %v since %v", k.missing, k.since)
	}
	found := service("LoadBalancer", balanced)
	if !set(start.Add(time.Minute), found) || set(start.Add(time.Minute), found) {
		t.Error("Changed is not called once for an address")
	}
	if set(start.Add(time.Hour), nil) {
		t.Error("Changed is called for a lost address")
	}
	if len(k.endpoints) != 1 || k.missing == nil || !k.since.Equal(start.Add(time.Hour)) {
		t.Errorf("endpoints %v, missing %v since %v", k.endpoints, k.missing, k.since)
	}
}

// A missing address is one line in /readyz, in the status and in the log: in /readyz at once if there never was one,
// and everywhere after the grace.
func TestMissingAddressIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		a := newNotified(Options{Service: "cluster-registry/mesh"})
		ended := make(chan error)
		go func() { ended <- a.reporting.Run(ctx) }()
		defer func() {
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}()
		a.set(service("LoadBalancer"))
		time.Sleep(time.Second)
		if line := a.health.NotReady(); !strings.HasPrefix(line, "the Service cluster-registry/mesh has no external address") || a.problems.String() != "" {
			t.Errorf("at first: not ready for %q, problem %q", line, a.problems.String())
		}
		for range 2 {
			time.Sleep(grace)
			a.NodesChanged(nil)
		}
		synctest.Wait()
		line := a.health.NotReady()
		if !strings.Contains(line, "after two minutes the Service cluster-registry/mesh has no external address") || line != a.problems.String() {
			t.Errorf("later: not ready for %q, problem %q", line, a.problems.String())
		}
		if strings.Count(a.log.String(), "\n") != 1 || !strings.Contains(a.log.String(), line) {
			t.Errorf("the log has not that line alone: %s", a.log.String())
		}
		a.set(service("LoadBalancer", balanced))
		synctest.Wait()
		if line := a.health.NotReady() + a.problems.String(); line != "" {
			t.Errorf("with an address: %s", line)
		}

		a.set(nil)
		time.Sleep(time.Second)
		if line := a.health.NotReady(); line != "" {
			t.Errorf("an address that was lost just now: not ready for %q", line)
		}
		time.Sleep(grace)
		if line := a.health.NotReady(); !strings.Contains(line, "does not exist") {
			t.Errorf("an address that was lost: not ready for %q", line)
		}
	})
}

// Nodes alone give no address before the Service was read.
func TestNodesAloneAreNoAddress(t *testing.T) {
	a := newNotified(Options{Service: "n/mesh"})
	a.health.SetNotReady(owner, "not read yet")
	a.NodesChanged([]*kube.Node{{Name: "a", Ready: true, InternalIPs: []string{"10.0.0.1"}}})
	a.report(time.Now())
	if a.health.NotReady() != "not read yet" || a.changes != 0 {
		t.Errorf("not ready for %q, changed %d times", a.health.NotReady(), a.changes)
	}
	a.set(service("NodePort"))
	if got := a.MeshEndpoints(nil); !slices.Equal(got, []string{"10.0.0.1:30946"}) || a.changes != 1 {
		t.Errorf("endpoints %v, changed %d times", got, a.changes)
	}
}

// The flag comes first, then the Service, then the recorded addresses, then the listening address.
func TestMeshEndpoints(t *testing.T) {
	recorded := []string{"198.51.100.1:7946"}
	balancer, plain := service("LoadBalancer", balanced), service("ClusterIP")
	for name, c := range map[string]struct {
		advertise, named string
		service          *kube.Service
		want             string
	}{
		"advertised":          {advertise: "mesh.example.com:7946", named: "n/mesh", service: balancer, want: "mesh.example.com:7946"},
		"Service":             {named: "n/mesh", service: balancer, want: "203.0.113.7:7946"},
		"no answer yet":       {named: "n/mesh", want: recorded[0]},
		"for its own cluster": {named: "n/mesh", service: plain, want: "10.0.0.9:7946"},
		"no Service":          {want: "10.0.0.9:7946"},
	} {
		a := newNotified(Options{Advertise: c.advertise, Service: c.named})
		if c.service != nil {
			a.set(c.service)
		}
		if got := a.MeshEndpoints(recorded); !slices.Equal(got, []string{c.want}) {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// An agent that listens on all addresses publishes one of them.
func TestOwnAddress(t *testing.T) {
	a := newNotified(Options{Listening: func() net.Addr { return &net.TCPAddr{IP: net.IPv6unspecified, Port: 7946} }})
	host, port, err := net.SplitHostPort(a.MeshEndpoints(nil)[0])
	if err != nil || port != "7946" || net.ParseIP(host) == nil || net.ParseIP(host).IsUnspecified() {
		t.Errorf("%s, %s: %v", host, port, err)
	}
}

// runAt runs an address with an API server until a condition holds.
func runAt(t *testing.T, handler http.HandlerFunc, until func(*notified) bool) *notified {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path == "/api/v1" {
			fmt.Fprint(w, `{"kind":"APIResourceList","groupVersion":"v1","resources":[{"name":"services","kind":"Service","namespaced":true,"verbs":["list","watch"]}]}`)
			return
		}
		handler(w, r)
	}))
	defer server.Close()
	client, err := kube.NewClient(&rest.Config{Host: server.URL, QPS: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	a := newNotified(Options{Service: "n/mesh", Client: client})
	changed := make(chan struct{}, 8)
	a.Hooks.Changed = func() { changed <- struct{}{} }
	ended := make(chan error, 1)
	a.Await()
	go func() { ended <- a.Run(ctx) }()
	deadline := time.After(time.Minute)
	pace := time.NewTicker(time.Millisecond)
	defer pace.Stop()
	for !until(a) {
		select {
		case <-pace.C:
		case <-deadline:
			t.Fatalf("not ready for %q, endpoints %v", a.health.NotReady(), a.now().endpoints)
		}
	}
	cancel()
	if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	return a
}

// The agent is not ready before it has read the Service, and publishes its addresses then.
func TestServiceIsWatched(t *testing.T) {
	answer := make(chan struct{})
	a := runAt(t, func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-answer:
		case <-r.Context().Done():
			return
		}
		fmt.Fprintln(w, `{"type":"ADDED","object":{"kind":"Service","apiVersion":"v1","metadata":{"name":"mesh","namespace":"n","uid":"u","resourceVersion":"1"},
			"spec":{"type":"LoadBalancer","ports":[{"name":"mesh","port":7946}]},"status":{"loadBalancer":{"ingress":[{"ip":"203.0.113.7"}]}}}}`)
		fmt.Fprintln(w, `{"type":"BOOKMARK","object":{"kind":"Service","apiVersion":"v1","metadata":{"resourceVersion":"1","annotations":{"k8s.io/initial-events-end":"true"}}}}`)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}, func(a *notified) bool {
		if a.health.NotReady() == "the Service n/mesh has not been read yet" {
			select {
			case <-answer:
			default:
				close(answer)
			}
		}
		return a.health.NotReady() == "" && len(a.now().endpoints) > 0
	})
	if got := a.MeshEndpoints(nil); !slices.Equal(got, []string{"203.0.113.7:7946"}) {
		t.Errorf("endpoints %v", got)
	}
}

// A Service that the agent may not read is reported as such.
func TestServiceThatMayNotBeRead(t *testing.T) {
	runAt(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403}`)
	}, func(a *notified) bool {
		return strings.HasPrefix(a.health.NotReady(), "the Service n/mesh cannot be read")
	})
}

// Without --mesh-service there is nothing to watch.
func TestWithoutAService(t *testing.T) {
	a := newNotified(Options{})
	a.NodesChanged(nil)
	if err := a.Run(t.Context()); err != nil || a.health.NotReady() != "" || a.changes != 0 {
		t.Errorf("%v, not ready for %q, changed %d times", err, a.health.NotReady(), a.changes)
	}
}
