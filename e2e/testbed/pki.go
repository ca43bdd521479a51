// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// frontProxy is who an API server is to the servers of its APIServices, which believe it who the caller is.
const frontProxy = "front-proxy"

// pki is a folder with one plane's keys and certificates. It is written once and reused, so that
// tokens and kubeconfigs survive a restart of the testbed.
type pki struct {
	dir string
}

func (p pki) path(name string) string { return filepath.Join(p.dir, name) }

// ensure writes the folder when it is not complete. The last file that it writes marks completeness.
func (p pki) ensure() error {
	const complete = "complete"
	if _, err := os.Stat(p.path(complete)); err == nil {
		return nil
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.MkdirAll(p.dir, 0o700); err != nil {
		return err
	}
	ca, err := p.authority()
	if err != nil {
		return err
	}
	for _, leaf := range []struct {
		name  string
		usage x509.ExtKeyUsage
		cert  x509.Certificate
	}{
		{"apiserver", x509.ExtKeyUsageServerAuth, x509.Certificate{
			Subject:  pkix.Name{CommonName: "kube-apiserver"},
			DNSNames: []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"},
			IPAddresses: []net.IP{
				net.IPv4(127, 0, 0, 1), net.IPv6loopback, net.IPv4(10, 96, 0, 1),
			},
		}},
		{"admin", x509.ExtKeyUsageClientAuth, x509.Certificate{
			Subject: pkix.Name{CommonName: "admin", Organization: []string{"system:masters"}},
		}},
		{"controller-manager", x509.ExtKeyUsageClientAuth, x509.Certificate{
			Subject: pkix.Name{CommonName: "system:kube-controller-manager"},
		}},
		{frontProxy, x509.ExtKeyUsageClientAuth, x509.Certificate{
			Subject: pkix.Name{CommonName: frontProxy},
		}},
	} {
		leaf.cert.ExtKeyUsage = []x509.ExtKeyUsage{leaf.usage}
		leaf.cert.KeyUsage = x509.KeyUsageDigitalSignature
		if err := p.issue(leaf.name, &leaf.cert, ca); err != nil {
			return err
		}
	}
	if err := p.serviceAccountKey(); err != nil {
		return err
	}
	return os.WriteFile(p.path(complete), nil, 0o600)
}

// issuer is a certificate authority. Its key is needed while the folder is written, and by a standalone server.
type issuer struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func (p pki) authority() (issuer, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return issuer{}, err
	}
	cert := &x509.Certificate{
		Subject:               pkix.Name{CommonName: "testbed"},
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	der, err := sign(cert, cert, key, key)
	if err != nil {
		return issuer{}, err
	}
	if err := errors.Join(writePEM(p.path("ca.crt"), "CERTIFICATE", der), writeKey(p.path("ca.key"), key)); err != nil {
		return issuer{}, err
	}
	parsed, err := x509.ParseCertificate(der)
	return issuer{cert: parsed, key: key}, err
}

// issue writes name.crt and name.key.
func (p pki) issue(name string, cert *x509.Certificate, ca issuer) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	der, err := sign(cert, ca.cert, key, ca.key)
	if err != nil {
		return fmt.Errorf("sign %s: %w", name, err)
	}
	if err := writePEM(p.path(name+".crt"), "CERTIFICATE", der); err != nil {
		return err
	}
	return writeKey(p.path(name+".key"), key)
}

// serviceAccountKey writes the pair that signs and checks ServiceAccount tokens.
func (p pki) serviceAccountKey() error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	if err := writeKey(p.path("service-account.key"), key); err != nil {
		return err
	}
	der, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		return err
	}
	return writePEM(p.path("service-account.pub"), "PUBLIC KEY", der)
}

// sign fills what all certificates share. The dates leave room for a clock that is set back.
func sign(cert, parent *x509.Certificate, key, parentKey *ecdsa.PrivateKey) ([]byte, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, err
	}
	cert.SerialNumber = serial
	cert.NotBefore = time.Now().Add(-24 * time.Hour)
	cert.NotAfter = time.Now().AddDate(10, 0, 0)
	return x509.CreateCertificate(rand.Reader, cert, parent, &key.PublicKey, parentKey)
}

func writeKey(path string, key *ecdsa.PrivateKey) error {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	return writePEM(path, "PRIVATE KEY", der)
}

func writePEM(path, kind string, der []byte) error {
	return os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
}
