// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The OpenAPI documents in the repository are those that a server gives. UPDATE_GOLDEN=1 writes them.
func TestOpenAPIDocuments(t *testing.T) {
	t.Parallel()
	s, _ := serve(t, &apiServer{answer: text(http.StatusOK, noClusters)}, roles{})
	scheme := NewScheme()
	server := genericServer(t, scheme)
	if err := s.Install(server, scheme); err != nil {
		t.Fatal(err)
	}
	server.PrepareRun()
	for file, path := range map[string]string{"v2.json": "/openapi/v2", "v3.json": "/openapi/v3/apis/clusterregistry.k8s.io/v1alpha1"} {
		request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
		request.Header.Set("Accept", "application/json")
		answer := httptest.NewRecorder()
		server.Handler.Director.ServeHTTP(answer, request)
		var got bytes.Buffer
		if err := json.Indent(&got, answer.Body.Bytes(), "", " "); err != nil || answer.Code != http.StatusOK {
			t.Fatalf("%s: %d, %v", path, answer.Code, err)
		}
		got.WriteByte('\n')
		file = filepath.Join("openapi", file)
		if os.Getenv("UPDATE_GOLDEN") != "" {
			if err := os.WriteFile(file, got.Bytes(), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), got.String()); diff != "" {
			t.Errorf("%s is not what a server gives (-file +server): UPDATE_GOLDEN=1 writes it\n%s", file, diff)
		}
	}
}
