// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package health_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/roster-mesh/roster/agent/health"
)

// A part of the agent adds a page to the HTTP port: whoever joins the parts hands it the mux.
func ExampleHealth_Serve() {
	pages := http.NewServeMux()
	pages.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "three clusters") })

	h := health.New()
	h.Serve(pages)
	h.Ready()
	for _, path := range []string{"/status", "/readyz"} {
		w := httptest.NewRecorder()
		h.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		fmt.Println(w.Code, w.Body)
	}
	// Output:
	// 200 three clusters
	// 200 ok
}
