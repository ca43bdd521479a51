// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"crypto/x509"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"
)

// Answers are compressed but for watches, which may be thousands. The request of who asks stays as it is.
func TestWatchesAreNotCompressed(t *testing.T) {
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { asked = append(asked, r.Header.Get("Accept-Encoding")) }))
	defer server.Close()
	client := &http.Client{Transport: &boundedTransport{http.DefaultTransport}}
	for _, query := range []string{"", "?watch=true&timeoutSeconds=9"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/api/v1/secrets"+query, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if err := resp.Body.Close(); err != nil || len(req.Header) > 0 {
			t.Errorf("%q: %v, headers %v", query, err, req.Header)
		}
	}
	if !slices.Equal(asked, []string{"gzip", "identity"}) {
		t.Errorf("asked for %q", asked)
	}
}

// The error for a certificate that is not valid now names both possible causes. It is the same for both, since a hostile
// server can choose the dates of its certificate.
func TestCertificateNotValidNow(t *testing.T) {
	messages := map[string]bool{}
	for _, from := range []time.Duration{time.Hour, -3 * time.Hour} {
		c := &x509.Certificate{NotBefore: time.Now().Add(from), NotAfter: time.Now().Add(from + time.Hour)}
		messages[(&connectionError{x509.CertificateInvalidError{Cert: c, Reason: x509.Expired}}).Error()] = true
	}
	if len(messages) != 1 {
		t.Errorf("messages %v", messages)
	}
	for text := range messages {
		if !strings.Contains(text, "or the clock of this machine is wrong") {
			t.Errorf("message %q", text)
		}
	}
}
