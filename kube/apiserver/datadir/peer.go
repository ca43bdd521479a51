// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package datadir

import (
	"bytes"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"time"

	"github.com/roster-mesh/roster/kube/pki"
)

// Peer is the certificate by which the servers of a cluster know this one. It is signed by a CA of its own, so that no
// client of the API is taken for a server, nor the other way around.
const Peer = "peer"

const peerAuthority = "peer-ca"

// PeerCAFile is the path of the certificate that signed those of all servers.
func (d *Dir) PeerCAFile() string { return d.Path("pki", peerAuthority+".crt") }

// EnsurePeerPKI creates the CA of the servers if it is missing, and the certificate of this one, which is reached at
// host. A certificate that ends within four months or is for another host is replaced. It says whether it wrote one.
func (d *Dir) EnsurePeerPKI(host string, now time.Time) (written bool, err error) {
	if err := os.MkdirAll(d.Path("pki"), dirMode); err != nil {
		return false, err
	}
	ca, err := d.readPair(peerAuthority)
	if errors.Is(err, fs.ErrNotExist) {
		if exists(d.PairFile(Peer)) {
			return false, fmt.Errorf("%s is missing, and the other servers of this cluster trust that CA: copy it from one of them", d.PairFile(peerAuthority))
		}
		ca, err = d.writePair(peerAuthority, pki.Authority("roster-apiserver-peer-ca"), nil, now, pki.AuthorityLife)
	}
	if err != nil {
		return false, err
	}
	if err := writePublic(d.PeerCAFile(), ca); err != nil {
		return false, err
	}
	template := x509.Certificate{
		Subject:     pkix.Name{CommonName: "roster-apiserver-peer"},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	if ip := net.ParseIP(host); ip != nil {
		template.IPAddresses = []net.IP{ip}
	} else {
		template.DNSNames = []string{host}
	}
	return d.ensureLeaf(Peer, template, ca, now)
}

// writePublic writes a CA's certificate without its key, unless the file has it.
func writePublic(path string, ca pki.Pair) error {
	public := ca.CertPEM()
	if have, err := os.ReadFile(path); err == nil && bytes.Equal(have, public) {
		return nil
	}
	return WriteFile(path, public)
}
