// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestReadyWhileFollowing: an agent that follows is ready when it has a leader, and one that leads when it has caught up.
func TestReadyWhileFollowing(t *testing.T) {
	h := New()
	for i, step := range []struct {
		do   func()
		want string
	}{
		{func() { h.Follow("alone") }, "alone"},
		{func() { h.SetFollowReason("") }, ""},
		{func() { h.SetFollowReason("lost") }, "lost"},
		{h.Lead, "not caught up with the local API server yet"},
		{func() { h.SetFollowReason("") }, "not caught up with the local API server yet"},
		{h.Ready, ""},
		{func() { h.SetNotReady("address", "no address") }, "no address"},
		{func() { h.SetNotReady("address", "") }, ""},
		{func() { h.SetNotReady("address", "no address") }, "no address"},
		{func() { h.Follow("elects") }, "elects"},
		{h.Lead, "not caught up with the local API server yet"},
	} {
		if step.do(); h.NotReady() != step.want {
			t.Errorf("%d: %q, not %q", i, h.NotReady(), step.want)
		}
	}
}

// TestEveryOwnerIsWaitedFor: what one part waits for is not taken away by another one.
func TestEveryOwnerIsWaitedFor(t *testing.T) {
	h := New()
	h.Ready()
	h.SetNotReady("b", "two")
	h.SetNotReady("a", "one")
	if got := h.NotReady(); got != "one; two" {
		t.Error(got)
	}
	h.SetNotReady("a", "")
	if got := h.NotReady(); got != "two" {
		t.Error(got)
	}
}

// TestReadyMetric says what /readyz says.
func TestReadyMetric(t *testing.T) {
	h := New()
	registry := prometheus.NewRegistry()
	registry.MustRegister(h.Collector())
	for _, want := range []float64{0, 1} {
		families, err := registry.Gather()
		if err != nil || families[0].GetName() != "roster_ready" || families[0].GetMetric()[0].GetGauge().GetValue() != want {
			t.Errorf("want %v: %v, %v", want, families, err)
		}
		h.Ready()
	}
}

// request asks the handler for a page.
func request(t *testing.T, h http.Handler, path string) (code int, body string) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
	return w.Code, w.Body.String()
}

// TestPagesOfOthers: whoever has the mux adds a page, which is served beside those of health until another start has a mux
// of its own.
func TestPagesOfOthers(t *testing.T) {
	h := New()
	handler := h.Handler()
	if code, _ := request(t, handler, "/status"); code != http.StatusNotFound {
		t.Errorf("a page that nobody has added: %d", code)
	}
	pages := http.NewServeMux()
	pages.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "three clusters") })
	h.Serve(pages)
	for _, c := range []struct {
		path string
		code int
		body string
	}{
		{"/status", http.StatusOK, "three clusters"},
		{"/healthz", http.StatusOK, "ok\n"},
		{"/readyz", http.StatusServiceUnavailable, "not caught up with the local API server yet\n"},
		{"/other", http.StatusNotFound, "404 page not found\n"},
	} {
		if code, body := request(t, handler, c.path); code != c.code || body != c.body {
			t.Errorf("%s: %d %q", c.path, code, body)
		}
	}
	h.Ready()
	h.Serve(http.NewServeMux())
	if code, _ := request(t, handler, "/status"); code != http.StatusNotFound {
		t.Errorf("a page of a start that ended: %d", code)
	}
	if code, body := request(t, handler, "/readyz"); code != http.StatusOK || body != "ok\n" {
		t.Errorf("/readyz: %d %q", code, body)
	}
}

// TestServer: pages are served at the port until the context ends; a port that is taken is one line that says what to do.
func TestServer(t *testing.T) {
	h := New()
	s, err := Listen(t.Context(), "127.0.0.1:0", h, false)
	if err != nil {
		t.Fatal(err)
	}
	address := s.listener.Addr().String()
	if _, err := Listen(t.Context(), address, h, false); err == nil || !strings.HasPrefix(err.Error(), "--http-listen: cannot listen on "+address) {
		t.Errorf("the port is taken: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+"/healthz", nil)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(answer.Body)
	if err = errors.Join(err, answer.Body.Close()); err != nil || string(body) != "ok\n" {
		t.Errorf("%q, %v", body, err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	none, err := Listen(t.Context(), "", h, false)
	if err != nil || none.Run(t.Context()) != nil {
		t.Errorf("no port is wanted: %v", err)
	}
}

// TestPprof: profiles are served only when asked for.
func TestPprof(t *testing.T) {
	for _, on := range []bool{false, true} {
		s, err := Listen(t.Context(), "127.0.0.1:0", New(), on)
		if err != nil {
			t.Fatal(err)
		}
		_ = s.listener.Close()
		if code, _ := request(t, s.server.Handler, "/debug/pprof/goroutine?debug=1"); (code == http.StatusOK) != on {
			t.Errorf("with pprof %v the answer is %d", on, code)
		}
		if code, _ := request(t, s.server.Handler, "/healthz"); code != http.StatusOK {
			t.Errorf("with pprof %v /healthz is %d", on, code)
		}
	}
}
