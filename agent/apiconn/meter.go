// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package apiconn

import (
	"net/http"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// The API servers that requests go to: the values of the label side.
const (
	Local = iota // that of this cluster
	Peer         // that of a peer
)

// Meter counts requests to API servers. It makes all counters in advance, so that counting allocates no memory.
type Meter struct {
	requests *prometheus.CounterVec
	counters [2]map[string]*[6]prometheus.Counter // by side, verb and class
}

// NewMeter returns a meter with all counters at 0.
func NewMeter() *Meter {
	m := &Meter{requests: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "roster_api_requests_total",
		Help: "Requests to API servers, by verb, side (local or peer) and class of the answer's code; a watch counts when it opens.",
	}, []string{"side", "verb", "code"})}
	for side, name := range []string{"local", "peer"} {
		m.counters[side] = map[string]*[6]prometheus.Counter{}
		for _, verb := range []string{"get", "list", "watch", "create", "update", "patch", "delete", "other"} {
			classes := &[6]prometheus.Counter{}
			for class, code := range []string{"error", "1xx", "2xx", "3xx", "4xx", "5xx"} {
				classes[class] = m.requests.WithLabelValues(name, verb, code)
			}
			m.counters[side][verb] = classes
		}
	}
	return m
}

// Requests is the collector of the metric roster_api_requests_total.
func (m *Meter) Requests() prometheus.Collector { return m.requests }

// Side wraps the transport of a connection to an API server, Local or Peer: it counts requests, and sets clock from the
// answers.
func (m *Meter) Side(side int, clock *Clock) func(http.RoundTripper) http.RoundTripper {
	return func(next http.RoundTripper) http.RoundTripper {
		return &meteredTransport{next, m.counters[side], clock}
	}
}

type meteredTransport struct {
	next     http.RoundTripper
	counters map[string]*[6]prometheus.Counter
	clock    *Clock
}

func (t *meteredTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := t.next.RoundTrip(r)
	class := 0
	if err == nil {
		if isOwn(r) {
			t.clock.observe(response)
		}
		class = response.StatusCode / 100
	}
	if class < 0 || class > 5 {
		class = 0
	}
	t.counters[verbOf(r)][class].Inc()
	return response, err
}

// isOwn reports whether the API server answers a request itself. It may forward requests below /apis/ to other servers,
// which have other clocks.
func isOwn(r *http.Request) bool {
	return strings.Contains(r.URL.Path, "/api/") && !strings.Contains(r.URL.Path, "/apis/")
}

// WrappedRoundTripper lets client-go find the transport underneath.
func (t *meteredTransport) WrappedRoundTripper() http.RoundTripper { return t.next }

// verbOf is the RBAC verb of a request.
func verbOf(r *http.Request) string {
	switch r.Method {
	case http.MethodPost:
		return "create"
	case http.MethodPut:
		return "update"
	case http.MethodPatch:
		return "patch"
	case http.MethodDelete:
		return "delete"
	case http.MethodGet:
	default:
		return "other"
	}
	if strings.Contains(r.URL.RawQuery, "watch=true") {
		return "watch"
	}
	if isCollection(r.URL.Path) {
		return "list"
	}
	return "get"
}

// isCollection reports whether a path names all objects of a kind, and not one object: after the version comes a
// resource, or a namespace and a resource, and no name.
func isCollection(path string) bool {
	var room [16]string
	parts := room[:0]
	for part := range strings.SplitSeq(strings.Trim(path, "/"), "/") {
		if parts = append(parts, part); len(parts) == cap(room) {
			return false
		}
	}
	at := slices.Index(parts, "api") + 2 // a server may be below a path of its own
	if at < 2 {
		if at = slices.Index(parts, "apis") + 3; at < 3 {
			return false
		}
	}
	rest := len(parts) - at
	return rest == 1 || rest == 3 && parts[at] == "namespaces"
}
