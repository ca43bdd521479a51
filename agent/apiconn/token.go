// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package apiconn

import (
	"net/http"
	"sync/atomic"

	"k8s.io/client-go/rest"
)

// Target is what a connection is made of, but for the value of its token.
type Target struct {
	host       string
	tls        rest.TLSClientConfig
	compresses bool
	token      bool // it has one, whatever its value
}

// TargetOf returns where a configuration leads.
func TargetOf(c *rest.Config) Target {
	return Target{c.Host, c.TLSClientConfig, !c.DisableCompression, c.BearerToken != ""}
}

// Token is the bearer token of a connection. It can be replaced while watches are open, so that renewing a
// credential starts no list over.
type Token struct{ value atomic.Pointer[string] }

// TakeToken moves the token out of a configuration into one that can be replaced; nil when the credential
// is a client certificate.
func TakeToken(c *rest.Config) *Token {
	if c.BearerToken == "" {
		return nil
	}
	t := &Token{}
	t.Replace(c.BearerToken)
	c.BearerToken = ""
	c.Wrap(func(next http.RoundTripper) http.RoundTripper { return &bearer{next: next, token: t} })
	return t
}

// HasToken says that the credential is a bearer token, and no client certificate.
func (t Target) HasToken() bool { return t.token }

// Replace has the next request carry another token.
func (t *Token) Replace(value string) { t.value.Store(&value) }

type bearer struct {
	next  http.RoundTripper
	token *Token
}

func (b *bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+*b.token.value.Load())
	return b.next.RoundTrip(r)
}
