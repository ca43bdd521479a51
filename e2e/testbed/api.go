// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"
)

// errNotFound is returned when the API server answers 404.
var errNotFound = errors.New("not found")

// apiClient asks one API server as its admin, no more than readiness needs.
type apiClient struct {
	server string
	http   *http.Client
}

func newAPIClient(server string, keys pki) (*apiClient, error) {
	ca, err := os.ReadFile(keys.path("ca.crt"))
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(ca) {
		return nil, fmt.Errorf("%s holds no certificate", keys.path("ca.crt"))
	}
	cert, err := tls.LoadX509KeyPair(keys.path("admin.crt"), keys.path("admin.key"))
	if err != nil {
		return nil, err
	}
	return &apiClient{server: server, http: &http.Client{
		Timeout: 5 * time.Second,
		Transport: &http.Transport{
			TLSClientConfig: &tls.Config{
				RootCAs: roots, Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12,
			},
			DisableKeepAlives: true, // A connection to a process that was killed must not be reused.
		},
	}}, nil
}

// do returns nil when the answer is a success; the object itself does not matter here.
func (c *apiClient) do(ctx context.Context, method, path string) error {
	req, err := http.NewRequestWithContext(ctx, method, c.server+path, http.NoBody)
	if err != nil {
		return err
	}
	res, err := c.http.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, 1<<16))
	switch {
	case res.StatusCode == http.StatusNotFound:
		return fmt.Errorf("%s: %w", path, errNotFound)
	case res.StatusCode < 200 || res.StatusCode > 299:
		return fmt.Errorf("%s: %s: %s", path, res.Status, strings.ReplaceAll(string(body), "\n", "; "))
	default:
		return err
	}
}
