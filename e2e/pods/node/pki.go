// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// authority is one cluster's certificate authority, which signs for everything in it.
type authority struct {
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// writePKI writes the keys and certificates of a cluster.
func (n *Node) writePKI() error {
	a := &authority{dir: n.path("pki")}
	if err := os.MkdirAll(a.dir, 0o700); err != nil {
		return err
	}
	ca := &x509.Certificate{
		Subject: pkix.Name{CommonName: n.Name + "-ca"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	if err := a.issue("ca", ca); err != nil {
		return err
	}
	address := net.ParseIP(n.IP)
	for name, leaf := range map[string]*x509.Certificate{
		"apiserver": {
			Subject:     pkix.Name{CommonName: "kube-apiserver"},
			DNSNames:    []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"},
			IPAddresses: []net.IP{address, net.IPv4(127, 0, 0, 1), net.ParseIP(n.serviceIP(1))},
			ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		},
		"admin": {
			Subject:     pkix.Name{CommonName: "admin", Organization: []string{"system:masters"}},
			ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		},
		"kubelet": {
			Subject:     pkix.Name{CommonName: "system:node:" + n.hostname(), Organization: []string{"system:nodes"}},
			DNSNames:    []string{n.hostname()},
			IPAddresses: []net.IP{address},
			ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
		},
		// Who the API server is to the servers of its APIServices, which believe it who the caller is.
		"front-proxy": {
			Subject:     pkix.Name{CommonName: "front-proxy"},
			ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		},
		"service-account": {Subject: pkix.Name{CommonName: "service-account"}}, // of which only the key is used
	} {
		leaf.KeyUsage = x509.KeyUsageDigitalSignature
		if err := a.issue(name, leaf); err != nil {
			return err
		}
	}
	return nil
}

// issue writes NAME.crt and NAME.key. The first certificate signs itself and all that follow.
func (a *authority) issue(name string, cert *x509.Certificate) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	if a.cert == nil {
		a.cert, a.key = cert, key
	}
	if cert.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120)); err != nil {
		return err
	}
	cert.NotBefore, cert.NotAfter = time.Now().Add(-24*time.Hour), time.Now().AddDate(1, 0, 0)
	der, err := x509.CreateCertificate(rand.Reader, cert, a.cert, &key.PublicKey, a.key)
	if err != nil {
		return fmt.Errorf("sign %s: %w", name, err)
	}
	if err := a.write(name+".crt", "CERTIFICATE", der); err != nil {
		return err
	}
	if der, err = x509.MarshalECPrivateKey(key); err != nil {
		return err
	}
	return a.write(name+".key", "EC PRIVATE KEY", der)
}

func (a *authority) write(file, kind string, der []byte) error {
	return os.WriteFile(filepath.Join(a.dir, file), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
}

// writeKubeconfig writes one that holds its certificates, for a user of the cluster's authority.
func (n *Node) writeKubeconfig(path, user string) error {
	var data [3][]byte
	for i, file := range []string{"ca.crt", user + ".crt", user + ".key"} {
		var err error
		if data[i], err = os.ReadFile(filepath.Join(n.path("pki"), file)); err != nil {
			return err
		}
	}
	config := clientcmdapi.NewConfig()
	config.Clusters[n.Name] = &clientcmdapi.Cluster{Server: n.server(), CertificateAuthorityData: data[0]}
	config.AuthInfos[user] = &clientcmdapi.AuthInfo{ClientCertificateData: data[1], ClientKeyData: data[2]}
	config.Contexts[n.Name] = &clientcmdapi.Context{Cluster: n.Name, AuthInfo: user}
	config.CurrentContext = n.Name
	return clientcmd.WriteToFile(*config, path)
}
