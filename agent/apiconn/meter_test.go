// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package apiconn

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

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
	m := NewMeter()
	ok := &http.Response{StatusCode: http.StatusOK}
	transport := m.Side(Peer, &Clock{})(roundTrip(func(r *http.Request) (*http.Response, error) {
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
	registry.MustRegister(m.Requests())
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
