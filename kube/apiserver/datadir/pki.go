// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package datadir

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
	"io/fs"
	"math/big"
	"net"
	"os"
	"slices"
	"time"

	"k8s.io/client-go/util/keyutil"
)

const (
	caLife   = 10 * 365 * 24 * time.Hour
	leafLife = 365 * 24 * time.Hour
	// renewBefore is how long before its end a certificate is replaced.
	renewBefore = leafLife / 3
	// clockSkew is how far the clock of a client may be behind.
	clockSkew = time.Hour
)

// What is in pki/. Each is one file with a certificate and its key, so that both are replaced at once.
const (
	Serving = "apiserver"
	Admin   = "admin"
	Agent   = "agent"

	// AgentGroup is the one group that the agent's certificate names.
	AgentGroup = "system:serviceaccounts"

	authority      = "ca"
	serviceAccount = "service-account"
)

// Names are those that the server and its callers are known by.
type Names struct {
	Hosts     []string // DNS names and IP addresses that the serving certificate is for, beside this machine's own
	AgentUser string   // user name in the agent's client certificate
}

// PairFile is the path of a certificate and its key.
func (d *Dir) PairFile(name string) string { return d.Path("pki", name+".pem") }

// CAFile is the path of the certificate that signed all others.
func (d *Dir) CAFile() string { return d.Path("pki", "ca.crt") }

// ServiceAccountKeyFile is the path of the key that signs the tokens of ServiceAccounts.
func (d *Dir) ServiceAccountKeyFile() string { return d.Path("pki", serviceAccount+".key") }

// pair is a certificate and its key.
type pair struct {
	cert *x509.Certificate
	key  crypto.Signer
}

// EnsurePKI creates what is missing in pki/ (a CA that somebody brought is used), and replaces certificates that end
// within four months or are for other names. The CA and the key of ServiceAccount tokens are never replaced. It returns
// the names of the certificates that it wrote.
func (d *Dir) EnsurePKI(names Names, now time.Time) (written []string, err error) {
	if err := os.MkdirAll(d.Path("pki"), dirMode); err != nil {
		return nil, err
	}
	ca, err := d.ensureAuthority(now)
	if err != nil {
		return nil, err
	}
	for name, template := range map[string]x509.Certificate{
		Serving: serving(names.Hosts),
		Admin:   client("kubernetes-admin", "system:masters"),
		Agent:   client(names.AgentUser, AgentGroup),
	} {
		made, err := d.ensureLeaf(name, template, ca, now)
		if err != nil {
			return nil, err
		}
		if made {
			written = append(written, name)
		}
	}
	slices.Sort(written)
	return written, d.ensureServiceAccountKey()
}

func serving(hosts []string) x509.Certificate {
	template := x509.Certificate{
		Subject:     pkix.Name{CommonName: "roster-apiserver"},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames:    []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
	}
	for _, host := range hosts {
		ip := net.ParseIP(host)
		switch {
		case ip == nil && !slices.Contains(template.DNSNames, host):
			template.DNSNames = append(template.DNSNames, host)
		case ip != nil && !slices.ContainsFunc(template.IPAddresses, ip.Equal):
			template.IPAddresses = append(template.IPAddresses, ip)
		}
	}
	return template
}

func client(user, group string) x509.Certificate {
	return x509.Certificate{
		Subject:     pkix.Name{CommonName: user, Organization: []string{group}},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
}

func (d *Dir) ensureAuthority(now time.Time) (pair, error) {
	ca, err := d.readPair(authority)
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Stat(d.PairFile(Serving)); err == nil {
			return pair{}, fmt.Errorf("%s is missing, and every client of this server trusts that CA: take it from a backup", d.PairFile(authority))
		}
		ca, err = d.writePair(authority, authorityTemplate("roster-apiserver-ca"), nil, now.Add(-clockSkew), now.Add(caLife))
	}
	if err != nil {
		return pair{}, err
	}
	return ca, writePublic(d.CAFile(), ca)
}

// ensureLeaf says whether it wrote the certificate.
func (d *Dir) ensureLeaf(name string, template x509.Certificate, ca pair, now time.Time) (made bool, err error) {
	have, err := d.readPair(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return false, err
	case now.Add(renewBefore).Before(have.cert.NotAfter) && have.cert.CheckSignatureFrom(ca.cert) == nil && same(have.cert, &template):
		return false, nil
	}
	end := now.Add(leafLife)
	if end.After(ca.cert.NotAfter) {
		end = ca.cert.NotAfter
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	_, err = d.writePair(name, template, &ca, now.Add(-clockSkew), end)
	return err == nil, err
}

// same says whether a certificate is for what the template is for.
func same(have, want *x509.Certificate) bool {
	return have.Subject.String() == want.Subject.String() && slices.Equal(have.DNSNames, want.DNSNames) &&
		slices.EqualFunc(have.IPAddresses, want.IPAddresses, net.IP.Equal)
}

// writePair makes a key and a certificate for it, signed by the CA, or by itself without one.
func (d *Dir) writePair(name string, template x509.Certificate, ca *pair, from, until time.Time) (pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return pair{}, err
	}
	if ca == nil {
		ca = &pair{cert: &template, key: key}
	}
	if template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127)); err != nil {
		return pair{}, err
	}
	template.NotBefore, template.NotAfter = from, until
	der, err := x509.CreateCertificate(rand.Reader, &template, ca.cert, key.Public(), ca.key)
	if err != nil {
		return pair{}, fmt.Errorf("certificate %s: %w", name, err)
	}
	encoded, err := encodeKey(key)
	if err != nil {
		return pair{}, err
	}
	data := append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), encoded...)
	if err := WriteFile(d.PairFile(name), data); err != nil {
		return pair{}, err
	}
	cert, err := x509.ParseCertificate(der)
	return pair{cert: cert, key: key}, err
}

func (d *Dir) readPair(name string) (pair, error) {
	path := d.PairFile(name)
	data, err := os.ReadFile(path)
	if err != nil {
		return pair{}, err
	}
	block, rest := pem.Decode(data)
	keyBlock, _ := pem.Decode(rest)
	if block == nil || keyBlock == nil {
		return pair{}, fmt.Errorf("%s is damaged: it has no certificate and key in PEM", path)
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return pair{}, fmt.Errorf("%s is damaged: %w", path, err)
	}
	key, err := keyutil.ParsePrivateKeyPEM(pem.EncodeToMemory(keyBlock))
	if err != nil {
		return pair{}, fmt.Errorf("%s is damaged: %w", path, err)
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return pair{}, fmt.Errorf("%s is damaged: its key is a %T, which signs nothing", path, key)
	}
	return pair{cert: cert, key: signer}, nil
}

func encodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), nil
}

func (d *Dir) ensureServiceAccountKey() error {
	if _, err := os.Stat(d.ServiceAccountKeyFile()); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	data, err := encodeKey(key)
	if err != nil {
		return err
	}
	return WriteFile(d.ServiceAccountKeyFile(), data)
}
