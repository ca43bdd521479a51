// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package aggregated

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/authentication/authenticatorfactory"
	"k8s.io/apiserver/pkg/authentication/request/headerrequest"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"

	"github.com/roster-mesh/roster/kube/pki"
)

const frontLife = time.Hour

// signed returns a certificate of a client that a CA signed.
func signed(t testing.TB, name string, ca *pki.Pair, now time.Time, life time.Duration) *x509.Certificate {
	t.Helper()
	pair, err := pki.New(pki.Client(name, ""), ca, now, life)
	if err != nil {
		t.Fatal(err)
	}
	return pair.Cert
}

func newCA(t testing.TB, now time.Time) (pki.Pair, dynamiccertificates.CAContentProvider) {
	t.Helper()
	ca, err := pki.New(pki.Authority("front"), nil, now, 3*frontLife)
	if err != nil {
		t.Fatal(err)
	}
	content, err := dynamiccertificates.NewStaticCAContent("front", ca.CertPEM())
	if err != nil {
		t.Fatal(err)
	}
	return ca, content
}

// front returns an authenticator that believes one CA, and a certificate of it.
func front(t testing.TB, now time.Time) (*frontAuthenticator, *x509.Certificate, pki.Pair) {
	t.Helper()
	ca, content := newCA(t, now)
	a := newFrontAuthenticator(&authenticatorfactory.RequestHeaderConfig{
		CAContentProvider: content, AllowedClientNames: headerrequest.StaticStringSlice{"proxy"}, UsernameHeaders: headerrequest.StaticStringSlice{"X-Remote-User"},
		UIDHeaders: headerrequest.StaticStringSlice{}, GroupHeaders: headerrequest.StaticStringSlice{}, ExtraHeaderPrefixes: headerrequest.StaticStringSlice{},
	})
	a.now = func() time.Time { return now }
	return a, signed(t, "proxy", &ca, now, frontLife), ca
}

// passes returns who a request with a certificate is of, which is nobody without an error, too.
func passes(a *frontAuthenticator, certificate *x509.Certificate) string {
	r := &http.Request{Header: http.Header{"X-Remote-User": {"alice"}}}
	if certificate != nil {
		r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{certificate}}
	}
	if of, ok, err := a.AuthenticateRequest(r); ok && err == nil {
		return of.User.GetName()
	}
	return ""
}

// A certificate is believed as long as it would be if it were verified for each request.
func TestFrontCertificate(t *testing.T) {
	t.Parallel()
	now := time.Now()
	a, good, ca := front(t, now)
	other, otherContent := newCA(t, now)
	for what, bad := range map[string]*x509.Certificate{
		"none": nil, "of another CA": signed(t, "proxy", &other, now, frontLife), "of another name": signed(t, "somebody", &ca, now, frontLife),
		"the CA's": ca.Cert, "that has ended": signed(t, "proxy", &ca, now.Add(-2*frontLife), frontLife),
	} {
		for range 2 {
			if got := passes(a, bad); got != "" {
				t.Errorf("a certificate %s: passes %s on", what, got)
			}
		}
	}
	for range 2 {
		if got := passes(a, good); got != "alice" {
			t.Fatalf("the certificate passes %q on", got)
		}
	}

	a.now = func() time.Time { return good.NotAfter.Add(time.Second) }
	if got := passes(a, good); got != "" {
		t.Errorf("a known certificate that has ended: passes %s on", got)
	}
	a.now = func() time.Time { return now }
	a.front.AllowedClientNames = headerrequest.StaticStringSlice{"another"}
	if got := passes(a, good); got != "" {
		t.Errorf("a known certificate whose name is not allowed any more: passes %s on", got)
	}
	a.front.AllowedClientNames = headerrequest.StaticStringSlice{}
	if got := passes(a, good); got != "alice" {
		t.Errorf("without names: %q", got)
	}
	a.front.CAContentProvider = otherContent
	if got := passes(a, good); got != "" {
		t.Errorf("a known certificate whose CA is not believed any more: passes %s on", got)
	}
}

// A certificate is not believed for longer than the CA that signed it.
func TestFrontCertificateEndsWithItsCA(t *testing.T) {
	t.Parallel()
	now := time.Now()
	a, _, ca := front(t, now)
	forever := *ca.Cert
	forever.NotAfter = now.Add(9 * frontLife)
	long := signed(t, "proxy", &pki.Pair{Cert: &forever, Key: ca.Key}, now, 9*frontLife)
	if got := passes(a, long); got != "alice" || !long.NotAfter.After(ca.Cert.NotAfter) {
		t.Fatalf("passes %q on", got)
	}
	a.now = func() time.Time { return ca.Cert.NotAfter.Add(time.Second) }
	if got := passes(a, long); got != "" {
		t.Errorf("passes %s on after the end of the CA", got)
	}
}

// What is remembered is bounded, and is what was verified.
func TestFrontCertificatesKept(t *testing.T) {
	t.Parallel()
	now := time.Now()
	a, _, ca := front(t, now)
	for i := range certificatesKept + 3 {
		passes(a, signed(t, fmt.Sprint("other-", i), &ca, now, frontLife))
	}
	if n := len(a.verified); n != 3 {
		t.Errorf("%d certificates are remembered", n)
	}
}

// What each request takes that was passed on, before anything else is looked at.
func BenchmarkFrontCertificate(b *testing.B) {
	a, good, _ := front(b, time.Now())
	for b.Loop() {
		if passes(a, good) == "" {
			b.Fatal("nobody is passed on")
		}
	}
}
