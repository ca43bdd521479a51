// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package pki makes the certificates of API servers that have a CA of their own, and of their callers. A server makes its
// own with it, and agentctl makes those of a server that is to be. It does no input or output, and has no state.
package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"time"
)

const (
	// AuthorityLife is how long a CA is valid, and LeafLife how long what it signs.
	AuthorityLife = 10 * 365 * 24 * time.Hour
	LeafLife      = 365 * 24 * time.Hour
	// ClockSkew is how far the clock of a client may be behind.
	ClockSkew = time.Hour

	// AuthorityName is the name of the CA of an API server.
	AuthorityName = "roster-apiserver-ca"
	// AdminUser may do everything, as a member of AdminGroup, which every API server takes for its administrators.
	AdminUser  = "kubernetes-admin"
	AdminGroup = "system:masters"
)

// ErrNotPair is returned for bytes that are not a certificate with its key. The error never quotes them.
var ErrNotPair = errors.New("it has no certificate and key in PEM")

// Pair is a certificate and its key.
type Pair struct {
	Cert *x509.Certificate
	Key  crypto.Signer
}

// Authority is the template of a certificate that signs others.
func Authority(name string) x509.Certificate {
	return x509.Certificate{
		Subject:               pkix.Name{CommonName: name},
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		BasicConstraintsValid: true,
		IsCA:                  true,
	}
}

// Client is the template of a certificate by which an API server knows a user as a member of a group.
func Client(user, group string) x509.Certificate {
	return x509.Certificate{
		Subject:     pkix.Name{CommonName: user, Organization: []string{group}},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
}

// New makes a key and a certificate for it, signed by the CA, or by itself without one. It is valid from now on for life,
// and no longer than the CA.
func New(template x509.Certificate, ca *Pair, now time.Time, life time.Duration) (Pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Pair{}, err
	}
	if template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127)); err != nil {
		return Pair{}, err
	}
	template.NotBefore, template.NotAfter = now.Add(-ClockSkew), now.Add(life)
	if ca == nil {
		ca = &Pair{Cert: &template, Key: key}
	}
	if template.NotAfter.After(ca.Cert.NotAfter) {
		template.NotAfter = ca.Cert.NotAfter
	}
	der, err := x509.CreateCertificate(rand.Reader, &template, ca.Cert, key.Public(), ca.Key)
	if err != nil {
		return Pair{}, err
	}
	cert, err := x509.ParseCertificate(der)
	return Pair{Cert: cert, Key: key}, err
}

// CertPEM is the certificate in PEM.
func (p Pair) CertPEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: p.Cert.Raw})
}

// KeyPEM is the key in PEM.
func (p Pair) KeyPEM() ([]byte, error) { return EncodeKey(p.Key) }

// EncodeKey is a key in PEM.
func EncodeKey(key crypto.Signer) ([]byte, error) {
	if ec, ok := key.(*ecdsa.PrivateKey); ok {
		der, err := x509.MarshalECPrivateKey(ec)
		if err != nil {
			return nil, err
		}
		return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), nil
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}

// Parse reads the first certificate and the first key in PEM.
func Parse(data []byte) (Pair, error) {
	var certificate, key *pem.Block
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		switch block.Type {
		case "CERTIFICATE":
			if certificate == nil {
				certificate = block
			}
		case "EC PRIVATE KEY", "RSA PRIVATE KEY", "PRIVATE KEY":
			if key == nil {
				key = block
			}
		}
	}
	if certificate == nil || key == nil {
		return Pair{}, ErrNotPair
	}
	cert, err := x509.ParseCertificate(certificate.Bytes)
	if err != nil {
		return Pair{}, err
	}
	signer, err := parseKey(key)
	if err != nil {
		return Pair{}, err
	}
	if public, ok := signer.Public().(interface{ Equal(crypto.PublicKey) bool }); !ok || !public.Equal(cert.PublicKey) {
		return Pair{}, errors.New("its key is not that of its certificate")
	}
	return Pair{Cert: cert, Key: signer}, nil
}

func parseKey(block *pem.Block) (crypto.Signer, error) {
	var key any
	var err error
	switch block.Type {
	case "EC PRIVATE KEY":
		key, err = x509.ParseECPrivateKey(block.Bytes)
	case "RSA PRIVATE KEY":
		key, err = x509.ParsePKCS1PrivateKey(block.Bytes)
	default:
		key, err = x509.ParsePKCS8PrivateKey(block.Bytes)
	}
	if err != nil {
		return nil, err
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("its key is a %T, which signs nothing", key)
	}
	return signer, nil
}

// CheckAuthority returns an error unless the certificate can sign others at this time.
func (p Pair) CheckAuthority(now time.Time) error {
	switch {
	case !p.Cert.IsCA || p.Cert.KeyUsage != 0 && p.Cert.KeyUsage&x509.KeyUsageCertSign == 0:
		return errors.New("its certificate is not that of a CA")
	case now.After(p.Cert.NotAfter):
		return fmt.Errorf("its certificate ended on %s", p.Cert.NotAfter.UTC().Format(time.DateOnly))
	}
	return nil
}
