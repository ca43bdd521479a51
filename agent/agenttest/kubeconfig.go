// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package agenttest

import (
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/roster-mesh/roster/kube"
)

// Kubeconfig is a kubeconfig for a server that does not run. Its token was issued age ago and lives for life; claims are
// further ones, each as in JSON.
func Kubeconfig(t *testing.T, age, life time.Duration, claims ...string) []byte {
	t.Helper()
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	return KubeconfigOf(t, server, "https://127.0.0.1:1", age, life, claims...)
}

// KubeconfigOf is a kubeconfig for url, with the certificate of server.
func KubeconfigOf(t *testing.T, server *httptest.Server, url string, age, life time.Duration, claims ...string) []byte {
	t.Helper()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	issued := time.Now().Add(-age)
	all := append([]string{fmt.Sprintf(`"iat":%d,"exp":%d`, issued.Unix(), issued.Add(life).Unix())}, claims...)
	config := clientcmdapi.NewConfig()
	config.Clusters["c"] = &clientcmdapi.Cluster{Server: url, CertificateAuthorityData: ca}
	config.AuthInfos["u"] = &clientcmdapi.AuthInfo{Token: "e30." + base64.RawURLEncoding.EncodeToString([]byte("{"+strings.Join(all, ",")+"}")) + ".c2ln"}
	config.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	config.CurrentContext = "x"
	data, err := clientcmd.Write(*config)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := kube.ParseKubeconfig(data); err != nil {
		t.Fatal(err)
	}
	return data
}

// Year is a long error of a clock.
const Year = 365 * 24 * time.Hour

// ClockErrors are errors of a clock to test with.
func ClockErrors() []time.Duration {
	return []time.Duration{-10 * Year, -25 * time.Hour, -time.Hour, 0, time.Hour, 25 * time.Hour, 10 * Year}
}

// WallClock is a clock that is off by a settable amount.
type WallClock struct{ Off time.Duration }

// Now is the wrong time. It has no monotonic reading.
func (w *WallClock) Now() time.Time { return time.Now().Add(w.Off).Round(0) }

// AnswerAt is an HTTP response whose Date header has that time.
func AnswerAt(at time.Time) *http.Response {
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Date": {at.UTC().Format(http.TimeFormat)}}}
}
