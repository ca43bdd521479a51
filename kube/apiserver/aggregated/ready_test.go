// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package aggregated

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// What an API server says of how it passes callers on is told from what it lacks, and one that does not answer holds up no start.
func TestPassesOn(t *testing.T) {
	t.Parallel()
	answer := func(data string) roundTripper {
		return func(*http.Request) (*http.Response, error) {
			body := `{"kind":"ConfigMap","apiVersion":"v1","data":` + data + `}`
			return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body))}, nil
		}
	}
	hangs := func(r *http.Request) (*http.Response, error) {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	for name, test := range map[string]struct {
		server roundTripper
		want   error
		took   time.Duration
	}{
		"it does":            {answer(`{"requestheader-client-ca-file":"a CA"}`), nil, 0},
		"it does not":        {answer(`{"client-ca-file":"a CA"}`), errFront, 0},
		"it does not answer": {hangs, nil, frontWithin},
	} {
		synctest.Test(t, func(t *testing.T) {
			client, err := kubernetes.NewForConfig(&rest.Config{Host: "https://api.example", QPS: -1, Transport: test.server})
			if err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			if err := passesOn(t.Context(), client); !errors.Is(err, test.want) {
				t.Errorf("%s: %v", name, err)
			}
			if took := time.Since(began); took != test.took {
				t.Errorf("%s: after %s", name, took)
			}
		})
	}
}
