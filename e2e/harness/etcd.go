// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
)

// Leads says whether the member of etcd that runs in the standalone API server with this data directory leads the others.
// It asks on the socket that etcd listens on, whose path must not be longer than an address of a socket may be.
func Leads(ctx context.Context, dataDir string) (bool, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://etcd/metrics", http.NoBody)
	if err != nil {
		return false, err
	}
	socket, err := filepath.EvalSymlinks(filepath.Join(dataDir, "etcd.sock"))
	if err != nil {
		return false, err
	}
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}}
	defer transport.CloseIdleConnections()
	response, err := transport.RoundTrip(request)
	if err != nil {
		return false, err
	}
	defer response.Body.Close()
	page, err := io.ReadAll(response.Body)
	if err != nil {
		return false, err
	}
	return leads(page)
}

// leads reads etcd's metrics.
func leads(page []byte) (bool, error) {
	for line := range bytes.Lines(page) {
		if value, found := strings.CutPrefix(string(line), "etcd_server_is_leader "); found {
			return strings.TrimSpace(value) == "1", nil
		}
	}
	return false, errors.New("etcd does not tell whether it leads")
}
