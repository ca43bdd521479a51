// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package apiconn

import (
	"net/http"
	"reflect"
	"testing"

	"k8s.io/client-go/rest"
)

// TestTokenIsReplaced: requests carry the present token, and another one makes no other target.
func TestTokenIsReplaced(t *testing.T) {
	config := &rest.Config{Host: "https://a.example", BearerToken: "one"}
	before := TargetOf(config)
	token := TakeToken(config)
	if config.BearerToken != "" || token == nil {
		t.Fatal("the token stays in the configuration")
	}
	sent := ""
	transport := config.WrapTransport(roundTrip(func(r *http.Request) (*http.Response, error) {
		sent = r.Header.Get("Authorization")
		return nil, http.ErrUseLastResponse
	}))
	for i, want := range []string{"Bearer one", "Bearer two"} {
		if i > 0 {
			token.Replace("two")
		}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://a.example", nil)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = transport.RoundTrip(r) //nolint:bodyclose // there is none
		if sent != want || r.Header.Get("Authorization") != "" {
			t.Errorf("sent %q, want %q; the caller's request has %v", sent, want, r.Header)
		}
	}
	for want, other := range map[bool][]*rest.Config{
		true:  {{Host: "https://a.example", BearerToken: "two"}},
		false: {{Host: "https://a.example"}, {Host: "https://b.example", BearerToken: "one"}},
	} {
		for _, c := range other {
			if got := TargetOf(c); reflect.DeepEqual(got, before) != want {
				t.Errorf("%+v is the same target: %t", got, !want)
			}
		}
	}
	if TakeToken(&rest.Config{}) != nil || TargetOf(&rest.Config{}).HasToken() || !before.HasToken() {
		t.Error("a client certificate is a token")
	}
}
