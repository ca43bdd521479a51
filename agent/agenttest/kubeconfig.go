// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package agenttest

import (
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/roster-mesh/roster/kube"
)

// Kubeconfig is one for a server that nobody runs, with a token that was issued age ago for a life.
func Kubeconfig(t *testing.T, age, life time.Duration) []byte {
	t.Helper()
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	return KubeconfigOf(t, server, "https://127.0.0.1:1", age, life)
}

// KubeconfigOf is one for a server with the certificate of that one.
func KubeconfigOf(t *testing.T, server *httptest.Server, url string, age, life time.Duration) []byte {
	t.Helper()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	issued := time.Now().Add(-age)
	claims := fmt.Sprintf(`{"iat":%d,"exp":%d}`, issued.Unix(), issued.Add(life).Unix())
	config := clientcmdapi.NewConfig()
	config.Clusters["c"] = &clientcmdapi.Cluster{Server: url, CertificateAuthorityData: ca}
	config.AuthInfos["u"] = &clientcmdapi.AuthInfo{Token: "e30." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".c2ln"}
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

// Year is long for a clock to be wrong by.
const Year = 365 * 24 * time.Hour

// ClockErrors are how far a clock is wrong.
func ClockErrors() []time.Duration {
	return []time.Duration{-10 * Year, -25 * time.Hour, -time.Hour, 0, time.Hour, 25 * time.Hour, 10 * Year}
}

// WallClock is a clock that is wrong by as much as somebody has set it.
type WallClock struct{ Off time.Duration }

// Now is the time by that clock, which says nothing of how much passes.
func (w *WallClock) Now() time.Time { return time.Now().Add(w.Off).Round(0) }

// AnswerAt is an answer of an API server at which the time is that.
func AnswerAt(at time.Time) *http.Response {
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Date": {at.UTC().Format(http.TimeFormat)}}}
}
