// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/server/options/authenticationconfig/metrics"
)

const (
	noIssuer = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\n"
	issuer   = noIssuer + `jwt:
- issuer: {url: "https://issuer.example", audiences: [roster]}
  claimMappings: {username: {claim: sub, prefix: ""}}
`
	ownIssuer = noIssuer + `jwt:
- issuer: {url: "https://own.example", audiences: [roster]}
  claimMappings: {username: {claim: sub, prefix: ""}}
`
)

// A file that changes is taken up when it is good, once, and tried again when what stood in its way may have gone.
func TestAuthenticationIsReloaded(t *testing.T) {
	t.Parallel()
	metrics.RegisterMetrics()
	file := filepath.Join(t.TempDir(), "authentication.yaml")
	var issuers []string // that were taken up
	var refuse error
	r := &reload{file: file, issuers: []string{"https://own.example"}, seen: noIssuer, update: func(_ context.Context, config *apiserver.AuthenticationConfiguration) error {
		for _, jwt := range config.JWT {
			issuers = append(issuers, jwt.Issuer.URL)
		}
		return refuse
	}}
	for _, step := range []struct {
		name, content string
		refuse        error
		want          []string
	}{
		{"as it was", noIssuer, nil, nil},
		{"not a configuration", "kind: Secret", nil, nil},
		{"nothing", "", nil, nil},
		{"the issuer of ServiceAccounts", ownIssuer, nil, nil},
		{"who is anonymous", issuer + "anonymous: {enabled: false}\n", nil, nil},
		{"an issuer that is not reached", issuer, errors.New("no answer"), []string{"https://issuer.example"}},
		{"the same, which is", issuer, nil, []string{"https://issuer.example"}},
		{"as it was by now", issuer, nil, nil},
	} {
		if err := os.WriteFile(file, []byte(step.content), 0o600); err != nil {
			t.Fatal(err)
		}
		issuers, refuse = nil, step.refuse
		r.check(t.Context())
		if diff := cmp.Diff(step.want, issuers); diff != "" {
			t.Errorf("%s (-want +got):\n%s", step.name, diff)
		}
	}
}
