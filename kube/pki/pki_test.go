// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package pki

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"slices"
	"testing"
	"time"
)

func encoded(t *testing.T, p Pair) []byte {
	t.Helper()
	key, err := p.KeyPEM()
	if err != nil {
		t.Fatal(err)
	}
	return append(p.CertPEM(), key...)
}

// A client's certificate names its user and group, verifies against the CA, and is not valid for longer than that is.
func TestClient(t *testing.T) {
	t.Parallel()
	now := time.Now()
	ca, err := New(Authority(AuthorityName), nil, now, LeafLife/2)
	if err != nil {
		t.Fatal(err)
	}
	admin, err := New(Client(AdminUser, AdminGroup), &ca, now, LeafLife)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(ca.Cert)
	if _, err := admin.Cert.Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); err != nil {
		t.Error(err)
	}
	if _, err := admin.Cert.Verify(x509.VerifyOptions{Roots: roots}); err == nil {
		t.Error("it is good for a server")
	}
	if admin.Cert.NotAfter != ca.Cert.NotAfter || admin.Cert.NotBefore.After(now.Add(-ClockSkew)) {
		t.Errorf("it is valid from %s to %s", admin.Cert.NotBefore, admin.Cert.NotAfter)
	}
	if s := admin.Cert.Subject; s.CommonName != AdminUser || !slices.Equal(s.Organization, []string{AdminGroup}) {
		t.Errorf("it is of %s", s)
	}
	if ca.CheckAuthority(now) != nil || admin.CheckAuthority(now) == nil || ca.CheckAuthority(now.Add(LeafLife)) == nil {
		t.Error("a CA is one until it ends, and a client is none")
	}
}

// What was encoded is read again, in any order, and so are keys that other programs make.
func TestParse(t *testing.T) {
	t.Parallel()
	ca, err := New(Authority(AuthorityName), nil, time.Now(), AuthorityLife)
	if err != nil {
		t.Fatal(err)
	}
	key, err := ca.KeyPEM()
	if err != nil {
		t.Fatal(err)
	}
	_, edwards, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	rivest, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	template := Authority("other")
	template.SerialNumber = big.NewInt(1)
	sign := func(public, private any) []byte {
		der, err := x509.CreateCertificate(rand.Reader, &template, &template, public, private)
		if err != nil {
			t.Fatal(err)
		}
		return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	}
	edwardsKey, err := EncodeKey(edwards)
	if err != nil {
		t.Fatal(err)
	}
	rivestKey := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(rivest)})
	for name, data := range map[string][]byte{
		"own":               encoded(t, ca),
		"key first":         append(slices.Clone(key), ca.CertPEM()...),
		"Ed25519 in PKCS 8": append(sign(edwards.Public(), edwards), edwardsKey...),
		"RSA in PKCS 1":     append(sign(rivest.Public(), rivest), rivestKey...),
	} {
		if _, err := Parse(data); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, data := range map[string][]byte{
		"nothing": nil, "no key": ca.CertPEM(), "no certificate": key, "another key": append(ca.CertPEM(), rivestKey...),
		"cut off": encoded(t, ca)[:200],
	} {
		if _, err := Parse(data); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
}
