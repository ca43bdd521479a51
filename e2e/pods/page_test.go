// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roster-mesh/roster/e2e/documents"
	"github.com/roster-mesh/roster/e2e/harness"
)

// TestPage runs the page in a pod with the commands of docs/ui.md. Its Service answers a stranger with 401, and with the page whom
// the document's commands let see it.
func TestPage(t *testing.T) {
	const inDefault = "kubectl -n default create "
	l := joined(t)
	m := l.member(1)
	before, err := m.revision(shared.ctx)
	must(t, err)
	t.Cleanup(func() { // the tests that follow upgrade to charts that may not know the values
		ctx := context.WithoutCancel(shared.ctx)
		_, err := l.sh(ctx, m, fmt.Sprintf("helm rollback --wait --timeout 3m -n %s %s %d", harness.Namespace, release, before))
		must(t, err)
		_, err = l.sh(ctx, m, "kubectl -n default delete serviceaccount oncall; kubectl delete clusterrolebinding page; kubectl -n "+harness.Namespace+" delete secret page")
		must(t, err)
	})
	folder := t.TempDir()
	visitor := trusting(t, filepath.Join(folder, "page.crt"), filepath.Join(folder, "page.key"))
	secret, err := l.docs.Lines(documents.UI, "kubectl -n cluster-registry create secret tls")
	must(t, err)
	_, err = l.sh(shared.ctx, m, "cd "+folder+"\n"+secret)
	must(t, err)
	for _, begins := range []string{"helm upgrade", inDefault + "serviceaccount", "kubectl create clusterrolebinding"} {
		_, err := l.typed(t, m, documents.UI, begins, "")
		must(t, err)
	}
	token, err := l.typed(t, m, documents.UI, inDefault+"token", "")
	must(t, err)
	service, err := m.Kube.CoreV1().Services(harness.Namespace).Get(shared.ctx, "cluster-registry-ui", metav1.GetOptions{})
	must(t, err)
	page := func(token string) (code int, text string, err error) {
		r, err := http.NewRequestWithContext(shared.ctx, http.MethodGet, "https://"+net.JoinHostPort(service.Spec.ClusterIP, "443")+"/", nil)
		if err != nil {
			return 0, "", err
		}
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		response, err := visitor.Do(r)
		if err != nil {
			return 0, "", err
		}
		defer response.Body.Close()
		data, err := io.ReadAll(response.Body)
		return response.StatusCode, string(data), err
	}
	eventually(t, "the pod is ready, and its Service answers a visitor", afterFault, func(context.Context) error {
		code, text, err := page(strings.TrimSpace(token))
		if err == nil && (code != http.StatusOK || !strings.Contains(text, "</span> cluster-1") || !strings.Contains(text, `class="summary good"`)) {
			err = fmt.Errorf("%d: %s", code, text)
		}
		return err
	})
	if code, text, err := page(""); err != nil || code != http.StatusUnauthorized || strings.Contains(text, "cluster-1") {
		t.Errorf("a stranger gets %d, %v: %s", code, err, text)
	}
	must(t, l.docs.Untyped("e2e/pods.TestPage"))
}

// trusting writes a certificate with its key, and returns a client that trusts it, whatever the address is called.
func trusting(t *testing.T, cert, key string) *http.Client {
	t.Helper()
	s := httptest.NewTLSServer(nil) // which has one
	defer s.Close()
	secret, err := x509.MarshalPKCS8PrivateKey(s.TLS.Certificates[0].PrivateKey)
	must(t, err)
	must(t, os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), 0o600))
	must(t, os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), 0o600))
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: "example.com", MinVersion: tls.VersionTLS12}, ForceAttemptHTTP2: true}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}
