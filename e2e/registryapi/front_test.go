// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package registryapi

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/roster-mesh/roster/e2e/harness"
	"github.com/roster-mesh/roster/kube/pki"
)

// testNoAggregationLayer: behind an API server that passes no callers on, the server says which of that one's flags are missing,
// and is not ready.
func (f *front) testNoAggregationLayer(t *testing.T) {
	if f.server != nil {
		t.Skip("the API server behind this one has an aggregation layer; the standalone ones have none")
	}
	bin, err := harness.FindBinaries()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Kubectl(t.Context(), "create", "clusterrolebinding", "no-layer", "--clusterrole=cluster-admin", "--serviceaccount="+harness.Namespace+":default"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_, _ = f.Kubectl(context.WithoutCancel(t.Context()), "delete", "clusterrolebinding", "no-layer")
	})
	token, err := f.Token(t.Context(), harness.Namespace, "default")
	if err != nil {
		t.Fatal(err)
	}
	address, err := harness.FreeAddress(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	kubeconfig, certificate, key := filepath.Join(dir, "kubeconfig"), filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	if err := f.WriteKubeconfig(kubeconfig, token); err != nil {
		t.Fatal(err)
	}
	writePair(t, certificate, key)
	cmd := exec.Command(filepath.Join(bin.Root, "bin", "roster-apiserver"), "aggregated", "--kubeconfig", kubeconfig, "--listen", address, "--tls-cert-file", certificate, "--tls-private-key-file", key)
	stderr, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stderr.Close()
	cmd.Stderr = writer
	process, err := harness.StartProcess(cmd)
	_ = writer.Close()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := process.Signal(syscall.SIGTERM, within); err != nil {
			t.Error(err)
		}
	})
	said := make(chan bool, 1)
	go func() {
		for lines := bufio.NewScanner(stderr); lines.Scan(); {
			if strings.Contains(lines.Text(), "--requestheader-client-ca-file") {
				said <- true
			}
		}
	}()
	select {
	case <-said:
	case <-process.Done():
		t.Fatal("the server ended")
	case <-time.After(within):
		t.Error("the log does not name the flag")
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} //nolint:gosec // who answers does not matter
	defer client.CloseIdleConnections()
	eventually(t, "the server lacks that and nothing else", func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+address+"/readyz?verbose", nil)
		if err != nil {
			return err
		}
		response, err := client.Do(request)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		checks, err := io.ReadAll(response.Body)
		if text := string(checks); err == nil && (response.StatusCode == http.StatusOK || strings.Count(text, "[-]") != 1 || !strings.Contains(text, "[-]roster-front")) {
			err = errors.New(text)
		}
		return err
	})
}

// writePair writes a certificate, of nobody in particular, and its key.
func writePair(t *testing.T, certificate, key string) {
	t.Helper()
	pair, err := pki.New(pki.Authority("own"), nil, time.Now(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	text, err := pair.KeyPEM()
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.WriteFile(certificate, pair.CertPEM(), 0o600), os.WriteFile(key, text, 0o600)); err != nil {
		t.Fatal(err)
	}
}
