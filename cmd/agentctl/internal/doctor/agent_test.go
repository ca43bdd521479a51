// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/clusters"
)

func TestAgentProblem(t *testing.T) {
	const running = `{"containerStatuses":[{"state":{"running":{}}}]}`
	for name, test := range map[string]struct {
		status, readyz string
		code           int
		want           string
	}{
		"not ready":      {running, "cluster name: taken\n", http.StatusServiceUnavailable, "its agent says of itself: cluster name: taken"},
		"ready":          {running, "ok\n", http.StatusOK, ""},
		"not reached":    {running, `{"kind":"Status","message":"no route"}`, http.StatusServiceUnavailable, ""},
		"no right":       {running, `{"kind":"Status"}`, http.StatusForbidden, ""},
		"no image":       {`{"containerStatuses":[{"state":{"waiting":{"reason":"ImagePullBackOff","message":"no such tag"}}}]}`, "", 0, "its pod a does not run: ImagePullBackOff: no such tag"},
		"no node for it": {`{"conditions":[{"type":"PodScheduled","status":"False","message":"0/3 nodes"}]}`, "", 0, "its pod a does not run: 0/3 nodes"},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				switch r.URL.Path {
				case "/api/v1/namespaces/ns/pods":
					w.Header().Set("Content-Type", "application/json")
					_, _ = io.WriteString(w, `{"apiVersion":"v1","kind":"PodList","metadata":{},"items":[{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"spec":{"containers":[{"name":"agent","ports":[{"name":"http","containerPort":9090}]}]},"status":`+test.status+`}]}`)
				case "/api/v1/namespaces/ns/pods/a:9090/proxy/readyz":
					w.WriteHeader(test.code)
					_, _ = io.WriteString(w, test.readyz)
				default:
					t.Errorf("asked for %s", r.URL.Path)
				}
			}))
			defer server.Close()
			s, err := clusters.New("s", &rest.Config{Host: server.URL})
			if err != nil {
				t.Fatal(err)
			}
			if got := (&target{client: s}).agentProblem(t.Context(), "ns"); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
