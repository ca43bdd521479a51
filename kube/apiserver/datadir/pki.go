// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package datadir

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"slices"
	"time"

	"github.com/roster-mesh/roster/kube/pki"
)

// renewBefore is how long before its end a certificate is replaced.
const renewBefore = pki.LeafLife / 3

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
		Admin:   pki.Client(pki.AdminUser, pki.AdminGroup),
		Agent:   pki.Client(names.AgentUser, AgentGroup),
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

func (d *Dir) ensureAuthority(now time.Time) (pki.Pair, error) {
	ca, err := d.readPair(authority)
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Stat(d.PairFile(Serving)); err == nil {
			return pki.Pair{}, fmt.Errorf("%s is missing, and every client of this server trusts that CA: take it from a backup", d.PairFile(authority))
		}
		ca, err = d.writePair(authority, pki.Authority(pki.AuthorityName), nil, now, pki.AuthorityLife)
	}
	if err != nil {
		return pki.Pair{}, err
	}
	if err := ca.CheckAuthority(now); err != nil { // what it signs, nobody trusts
		return pki.Pair{}, fmt.Errorf("%s: %w", d.PairFile(authority), err)
	}
	return ca, writePublic(d.CAFile(), ca)
}

// AuthorityEnds is until when the CA is valid, and so all that it signs.
func (d *Dir) AuthorityEnds() (time.Time, error) {
	ca, err := d.readPair(authority)
	if err != nil {
		return time.Time{}, err
	}
	return ca.Cert.NotAfter, nil
}

// ensureLeaf says whether it wrote the certificate.
func (d *Dir) ensureLeaf(name string, template x509.Certificate, ca pki.Pair, now time.Time) (made bool, err error) {
	have, err := d.readPair(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return false, err
	case now.Add(renewBefore).Before(have.Cert.NotAfter) && have.Cert.CheckSignatureFrom(ca.Cert) == nil && same(have.Cert, &template):
		return false, nil
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	_, err = d.writePair(name, template, &ca, now, pki.LeafLife)
	return err == nil, err
}

// same says whether a certificate is for what the template is for.
func same(have, want *x509.Certificate) bool {
	return have.Subject.String() == want.Subject.String() && slices.Equal(have.DNSNames, want.DNSNames) &&
		slices.EqualFunc(have.IPAddresses, want.IPAddresses, net.IP.Equal)
}

// writePair makes a key and a certificate for it, signed by the CA, or by itself without one.
func (d *Dir) writePair(name string, template x509.Certificate, ca *pki.Pair, now time.Time, life time.Duration) (pki.Pair, error) {
	made, err := pki.New(template, ca, now, life)
	if err != nil {
		return pki.Pair{}, fmt.Errorf("certificate %s: %w", name, err)
	}
	return made, d.keepPair(name, made)
}

func (d *Dir) keepPair(name string, p pki.Pair) error {
	key, err := p.KeyPEM()
	if err != nil {
		return err
	}
	return WriteFile(d.PairFile(name), append(p.CertPEM(), key...))
}

func (d *Dir) readPair(name string) (pki.Pair, error) {
	path := d.PairFile(name)
	data, err := os.ReadFile(path)
	if err != nil {
		return pki.Pair{}, err
	}
	p, err := pki.Parse(data)
	if err != nil {
		return pki.Pair{}, fmt.Errorf("%s is damaged: %w", path, err)
	}
	return p, nil
}

func (d *Dir) ensureServiceAccountKey() error {
	if _, err := os.Stat(d.ServiceAccountKeyFile()); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	data, err := pki.EncodeKey(key)
	if err != nil {
		return err
	}
	return WriteFile(d.ServiceAccountKeyFile(), data)
}
