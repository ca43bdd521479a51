// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// Another part adds a page to the agent's.
func TestAPageIsAdded(t *testing.T) {
	t.Parallel()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /hello", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") })
	s, err := newHealth(mux, prometheus.NewRegistry(), false).listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = s.listener.Close()
	for path, want := range map[string]int{"/hello": 200, "/healthz": 200, "/readyz": 503, "/metrics": 200, "/other": 404} {
		w := httptest.NewRecorder()
		s.server.Handler.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", path, nil))
		if w.Code != want {
			t.Errorf("%s is answered with %d, not %d", path, w.Code, want)
		}
	}
}
