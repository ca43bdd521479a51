// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package aggregated

import (
	"crypto/x509"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/authenticatorfactory"
	"k8s.io/apiserver/pkg/authentication/request/headerrequest"
)

// certificatesKept bounds the certificates that are remembered. Each API server in front has one.
const certificatesKept = 64

// frontAuthenticator takes callers from the headers of requests whose connection has the certificate of the API server in front.
// Upstream's verifies that certificate for each request, which takes as long as to read a Cluster and to convert it.
type frontAuthenticator struct {
	front   *authenticatorfactory.RequestHeaderConfig
	headers authenticator.Request
	now     func() time.Time

	mu       sync.Mutex
	roots    *x509.CertPool       // that what is remembered was verified by
	verified map[string]time.Time // until when, by the certificate's bytes
}

func newFrontAuthenticator(front *authenticatorfactory.RequestHeaderConfig) *frontAuthenticator {
	return &frontAuthenticator{
		front:   front,
		headers: headerrequest.NewDynamic(front.UsernameHeaders, front.UIDHeaders, front.GroupHeaders, front.ExtraHeaderPrefixes),
		now:     time.Now,
	}
}

// AuthenticateRequest implements authenticator.Request.
func (a *frontAuthenticator) AuthenticateRequest(r *http.Request) (*authenticator.Response, bool, error) {
	if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return nil, false, nil
	}
	options, ok := a.front.CAContentProvider.VerifyOptions()
	if !ok {
		return nil, false, nil
	}
	if err := a.verify(r.TLS.PeerCertificates, options); err != nil {
		return nil, false, err
	}
	name := r.TLS.PeerCertificates[0].Subject.CommonName
	if allowed := a.front.AllowedClientNames.Value(); len(allowed) > 0 && !slices.Contains(allowed, name) {
		return nil, false, fmt.Errorf("certificates of %q may not pass callers on", name)
	}
	return a.headers.AuthenticateRequest(r)
}

// verify remembers a yes for as long as all certificates of the chain are valid and the CAs are the same.
func (a *frontAuthenticator) verify(chain []*x509.Certificate, options x509.VerifyOptions) error {
	leaf, now := chain[0], a.now()
	a.mu.Lock()
	known := a.roots == options.Roots && now.Before(a.verified[string(leaf.Raw)])
	a.mu.Unlock()
	if known {
		return nil
	}
	options.CurrentTime = now
	if options.Intermediates == nil && len(chain) > 1 {
		options.Intermediates = x509.NewCertPool()
		for _, c := range chain[1:] {
			options.Intermediates.AddCert(c)
		}
	}
	chains, err := leaf.Verify(options)
	if err != nil {
		return err
	}
	until := leaf.NotAfter
	for _, c := range chains[0] {
		if c.NotAfter.Before(until) {
			until = c.NotAfter
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.roots != options.Roots || len(a.verified) >= certificatesKept {
		a.roots, a.verified = options.Roots, map[string]time.Time{}
	}
	a.verified[string(leaf.Raw)] = until
	return nil
}
