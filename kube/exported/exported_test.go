// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package exported_test

import (
	"encoding/base64"
	"encoding/pem"
	"maps"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/roster-mesh/roster/kube/exported"
)

// What a format writes, it can read the expiry from; what it cannot read says nothing.
func TestValidity(t *testing.T) {
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	want := time.Unix(5000, 0)
	access := &rest.Config{
		Host: server.URL, BearerToken: "e30." + base64.RawURLEncoding.EncodeToString([]byte(`{"iat":1000,"exp":5000}`)) + ".c2ln",
		TLSClientConfig: rest.TLSClientConfig{CAData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})},
	}
	for format, keys := range map[exported.Format][]string{
		exported.ArgoCD: {"config", "name", "server"}, exported.Flux: {"value"}, exported.Runtime: {"kubeconfig"},
	} {
		data, err := format.Data("paris", access)
		if err != nil {
			t.Fatal(err)
		}
		if got := slices.Sorted(maps.Keys(data)); !slices.Equal(got, keys) {
			t.Errorf("%s has %v, want %v", format, got, keys)
		}
		if _, until, ok := format.Validity(data); !ok || !until.Equal(want) {
			t.Errorf("%s is valid until %v (%t), want %v", format, until, ok, want)
		}
		for _, key := range keys {
			data[key] = []byte("{{")
		}
		if _, _, ok := format.Validity(data); ok {
			t.Errorf("%s: something is read from nothing", format)
		}
		if _, err := format.SecretName(strings.Repeat("a", 254)); err == nil {
			t.Errorf("%s: a name that no Secret can have", format)
		}
		if !format.Known() {
			t.Errorf("%s is not known", format)
		}
	}
	if exported.Format("helm").Known() {
		t.Error("helm is known")
	}
}

// The tokens that agents issue to each other are known by whose they are.
func TestReads(t *testing.T) {
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	for claims, want := range map[string]bool{
		`{"sub":"system:serviceaccount:cluster-registry-readers:reader-0f"}`: true,
		`{"sub":"system:serviceaccount:cluster-registry-readers:bootstrap"}`: true,
		`{"sub":"system:serviceaccount:cluster-registry-private:swap"}`:      true,
		`{"sub":"system:serviceaccount:kube-system:argocd-manager"}`:         false,
		`{"sub":"system:serviceaccount:cluster-registry-readers:other"}`:     false,
		`{"sub":"system:serviceaccount:cluster-registry:reader-0f"}`:         false,
		`{"sub":"cluster-registry-readers:reader-0f"}`:                       false,
		`{"sub":1}`: false,
		`{}`:        false,
		`nonsense`:  false,
	} {
		for _, format := range exported.Formats() {
			data, err := format.Data("paris", &rest.Config{
				Host: server.URL, BearerToken: "e30." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".c2ln",
				TLSClientConfig: rest.TLSClientConfig{CAData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})},
			})
			if err != nil {
				t.Fatal(err)
			}
			if format.Reads(data) != want {
				t.Errorf("%s, %s: it is not %t", format, claims, want)
			}
		}
	}
	if exported.Flux.Reads(nil) || exported.ArgoCD.Reads(map[string][]byte{"config": []byte(`{"bearerToken":"a.b.c"}`)}) {
		t.Error("nothing is a token of a reader")
	}
}
