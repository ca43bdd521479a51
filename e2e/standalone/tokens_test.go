// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package standalone

import (
	"net/http"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// TestTokensAtTheStart: a server that has just been started may be silent or not ready, but it does not call a good token a
// bad one.
func TestTokensAtTheStart(t *testing.T) {
	t.Parallel()
	address, dir := address(t), filepath.Join(t.TempDir(), "d")
	s := start(t, dir, "--listen", address)
	bearer := token(t, s.kubernetes(t))
	admin, err := clientcmd.BuildConfigFromFlags("", filepath.Join(dir, "admin.kubeconfig"))
	if err != nil {
		t.Fatal(err)
	}
	config := rest.AnonymousClientConfig(admin)
	config.BearerToken = bearer
	transport, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := s.Signal(syscall.SIGKILL, within); err != nil {
			t.Fatal(err)
		}
		ended := make(chan struct{})
		statuses := map[int]int{}
		go func() {
			defer close(ended)
			for until := time.Now().Add(within); statuses[http.StatusOK] == 0 && time.Now().Before(until); {
				if status := statusOf(t, transport, config.Host); status != 0 {
					statuses[status]++
				}
			}
		}()
		s = start(t, dir, "--listen", address)
		<-ended
		if t.Logf("%v", statuses); statuses[http.StatusOK] == 0 || statuses[http.StatusUnauthorized] > 0 {
			t.Errorf("the token was answered with %v", statuses)
		}
	}
}

// statusOf asks what any ServiceAccount may ask, and returns the status, 0 for no answer.
func statusOf(t *testing.T, client *http.Client, server string) int {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server+"/api", http.NoBody)
	if err != nil {
		t.Error(err)
		return 0
	}
	answer, err := client.Do(request)
	if err != nil {
		return 0
	}
	_ = answer.Body.Close()
	return answer.StatusCode
}
