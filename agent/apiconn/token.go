// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package apiconn

import (
	"net/http"
	"sync/atomic"

	"k8s.io/client-go/rest"
)

// Target is the configuration of a connection without the value of its token. Two connections with equal targets differ
// in the token at most.
type Target struct {
	host       string
	tls        rest.TLSClientConfig
	compresses bool
	token      bool // it has one, whatever its value
}

// TargetOf returns the target of a configuration.
func TargetOf(c *rest.Config) Target {
	return Target{c.Host, c.TLSClientConfig, !c.DisableCompression, c.BearerToken != ""}
}

// Token is the bearer token of a connection. It can be replaced while watches are open, so that renewing a credential
// does not restart them.
type Token struct{ value atomic.Pointer[string] }

// TakeToken moves the token of a configuration into a Token. It returns nil when the credential is a client
// certificate.
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

// HasToken reports whether the credential is a bearer token.
func (t Target) HasToken() bool { return t.token }

// Replace changes the token of all requests from now on.
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
