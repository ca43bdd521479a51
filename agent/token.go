// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"net/http"
	"sync/atomic"

	"k8s.io/client-go/rest"
)

// target is what a connection is made of, but for the value of its token.
type target struct {
	host       string
	tls        rest.TLSClientConfig
	compresses bool
	token      bool
}

func targetOf(c *rest.Config) target {
	return target{c.Host, c.TLSClientConfig, !c.DisableCompression, c.BearerToken != ""}
}

// token is the bearer token of a connection. It can be replaced while watches are open, so that renewing a
// credential starts no list over.
type token struct{ value atomic.Pointer[string] }

// takeToken moves the token out of a configuration into one that can be replaced; nil when the credential
// is a client certificate.
func takeToken(c *rest.Config) *token {
	if c.BearerToken == "" {
		return nil
	}
	t := &token{}
	t.replace(c.BearerToken)
	c.BearerToken = ""
	c.Wrap(func(next http.RoundTripper) http.RoundTripper { return &bearer{next: next, token: t} })
	return t
}

func (t *token) replace(value string) { t.value.Store(&value) }

type bearer struct {
	next  http.RoundTripper
	token *token
}

func (b *bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+*b.token.value.Load())
	return b.next.RoundTrip(r)
}
