// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"crypto/ed25519"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/roster-mesh/roster/kube"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/mesh"
	"github.com/roster-mesh/roster/replica"
	"github.com/roster-mesh/roster/syncrules/engine"
)

// described is a Registerer that notes the names of what is registered.
type described struct {
	prometheus.Registerer
	t     *testing.T
	names []string
}

func (d *described) MustRegister(all ...prometheus.Collector) {
	for _, c := range all {
		if err := d.Register(c); err != nil {
			d.t.Fatal(err)
		}
	}
}

var fqName = regexp.MustCompile(`fqName: "([^"]+)"`)

func (d *described) Register(c prometheus.Collector) error {
	descs := make(chan *prometheus.Desc)
	go func() {
		defer close(descs)
		c.Describe(descs)
	}()
	for desc := range descs {
		d.names = append(d.names, fqName.FindStringSubmatch(desc.String())[1])
	}
	return nil
}

// everything registers what an agent registers.
func everything(t *testing.T) []string {
	t.Helper()
	d := &described{t: t}
	key, err := mesh.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	trust := mesh.NewTrust(mesh.Pin{ClusterID: "me", PublicKey: key.Public().(ed25519.PublicKey)}, nil)
	r, err := replica.New(replica.Options{Self: "me", PrivateKey: key, Epoch: 1, Keyring: trust})
	if err != nil {
		t.Fatal(err)
	}
	m, err := mesh.New(mesh.Options{Identity: mesh.Identity{ClusterID: "me", PrivateKey: key}, Trust: trust, State: r, Listen: "127.0.0.1:0", Metrics: d})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close() })
	_, err = engine.New(engine.Options{
		LocalClusterID: "me", Local: &localSource{}, Target: &kube.Client{}, Cluster: func() *v1alpha1.Cluster { return nil }, Metrics: d,
	})
	if err != nil {
		t.Fatal(err)
	}
	d.MustRegister(newRefusals(), newReplicaCollector(r, nil, 1), newAccessCollector(nil), newBuildInfo("v", "c"), newRequestMeter().requests, newAgentsCollector(nil))
	registry := prometheus.NewRegistry()
	newHealth(http.NewServeMux(), registry, false)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		d.names = append(d.names, f.GetName())
	}
	slices.Sort(d.names)
	return slices.Compact(d.names)
}

// docs/metrics.md lists every metric and no other.
func TestMetricsAreDocumented(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	var listed []string
	for _, row := range regexp.MustCompile("(?m)^\\| `(roster_[a-z_]+)` \\|").FindAllSubmatch(text, -1) {
		listed = append(listed, string(row[1]))
	}
	names := everything(t)
	for _, name := range names {
		if !slices.Contains(listed, name) {
			t.Errorf("docs/metrics.md does not list %s", name)
		}
		if !strings.HasPrefix(name, "roster_") {
			t.Errorf("%s has not the project's prefix", name)
		}
	}
	for _, name := range listed {
		if !slices.Contains(names, name) {
			t.Errorf("docs/metrics.md lists %s, which there is not", name)
		}
	}
}

func TestVerbOf(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ method, url, want string }{
		{"GET", "/api/v1/namespaces", "list"},
		{"GET", "/api/v1/namespaces/x", "get"},
		{"GET", "/api/v1/namespaces/x/secrets", "list"},
		{"GET", "/api/v1/namespaces/x/secrets/y", "get"},
		{"GET", "/apis/apps/v1/deployments", "list"},
		{"GET", "/apis/apps/v1/namespaces/x/deployments?limit=500", "list"},
		{"GET", "/apis/apps/v1/namespaces/x/deployments?watch=true", "watch"},
		{"GET", "/k8s/clusters/c/api/v1/namespaces/x/secrets", "list"},
		{"GET", "/version", "get"},
		{"GET", "/apis/apps/v1", "get"},
		{"POST", "/api/v1/namespaces/x/secrets", "create"},
		{"PUT", "/api/v1/namespaces/x/secrets/y", "update"},
		{"PATCH", "/api/v1/namespaces/x/secrets/y", "patch"},
		{"DELETE", "/api/v1/namespaces/x/secrets/y", "delete"},
		{"OPTIONS", "/api", "other"},
	} {
		if got := verbOf(httptest.NewRequestWithContext(t.Context(), tc.method, tc.url, nil)); got != tc.want {
			t.Errorf("%s %s is %s, not %s", tc.method, tc.url, got, tc.want)
		}
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// Requests are counted without taking memory for it.
func TestRequestMeter(t *testing.T) {
	m := newRequestMeter()
	ok := &http.Response{StatusCode: http.StatusOK}
	transport := m.side(sidePeer, &issuerClock{})(roundTrip(func(r *http.Request) (*http.Response, error) {
		if r.Method == http.MethodPut {
			return nil, errors.New("no answer")
		}
		return ok, nil
	}))
	get := httptest.NewRequestWithContext(t.Context(), "GET", "/api/v1/namespaces/x/secrets", nil)
	if n := testing.AllocsPerRun(100, func() { _, _ = transport.RoundTrip(get) }); n > 0 {
		t.Errorf("%v allocations for each request", n)
	}
	_, _ = transport.RoundTrip(httptest.NewRequestWithContext(t.Context(), "PUT", "/api/v1/namespaces/x/secrets/y", nil))
	registry := prometheus.NewRegistry()
	registry.MustRegister(m.requests)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	counted := map[string]float64{}
	for _, metric := range families[0].GetMetric() {
		if n := metric.GetCounter().GetValue(); n > 0 {
			key := ""
			for _, l := range metric.GetLabel() {
				key += l.GetName() + "=" + l.GetValue() + " "
			}
			counted[key] = n
		}
	}
	if len(counted) != 2 || counted["code=2xx side=peer verb=list "] != 101 || counted["code=error side=peer verb=update "] != 1 {
		t.Errorf("counted %v", counted)
	}
}

// What waits grows old until it is applied; a try that fails makes it no younger.
func TestOldestOfLoop(t *testing.T) {
	t.Parallel()
	l := newLoop[string]("test", slog.New(slog.DiscardHandler), nil)
	l.waiting = map[string]time.Time{}
	start := time.Now()
	l.add("a")
	if age := l.oldest(start.Add(time.Minute)); age < 50*time.Second {
		t.Errorf("age %s", age)
	}
	fails := true
	l.reconcile = func(_ context.Context, _ string) error {
		if fails {
			return errors.New("not now")
		}
		return nil
	}
	l.next(t.Context())
	if age := l.oldest(start.Add(time.Minute)); age < 50*time.Second {
		t.Errorf("after a failure, age %s", age)
	}
	fails = false
	l.next(t.Context())
	if age := l.oldest(start.Add(time.Minute)); age != 0 {
		t.Errorf("after it was applied, age %s", age)
	}
}

// Profiles are served only when asked for.
func TestPprof(t *testing.T) {
	t.Parallel()
	for _, on := range []bool{false, true} {
		s, err := newHealth(http.NewServeMux(), prometheus.NewRegistry(), on).listen(t.Context(), "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		_ = s.listener.Close()
		w := httptest.NewRecorder()
		s.server.Handler.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", "/debug/pprof/goroutine?debug=1", nil))
		if found := w.Code == http.StatusOK; found != on {
			t.Errorf("with pprof %v the answer is %d", on, w.Code)
		}
	}
}
