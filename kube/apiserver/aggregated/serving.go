// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package aggregated

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

const (
	caLife   = 10 * 365 * 24 * time.Hour
	leafLife = 90 * 24 * time.Hour
	// renewBefore is how long before its end a certificate is replaced. A CA is so early enough for all that it signs.
	renewBefore = leafLife / 3
	// clockSkew is how far the clock of the API server may be behind.
	clockSkew = time.Hour
)

// Certificate is the server's own: signed by a CA that all its replicas share, in a Secret, and that the APIService names.
type Certificate struct {
	o       CertificateOptions
	current atomic.Pointer[content]
	named   atomic.Bool // the APIService names the CA of the current one

	mu        sync.Mutex
	listeners []dynamiccertificates.Listener
	said      string // what was wrong when Keep looked last
}

// content is in PEM.
type content struct{ cert, key, ca []byte }

// CertificateOptions of NewCertificate. All are required.
type CertificateOptions struct {
	Kube       kubernetes.Interface
	Dynamic    dynamic.Interface
	Namespace  string // of the Secret
	Secret     string
	Service    types.NamespacedName // that the APIService names
	APIService string
	Log        *slog.Logger
}

var _ dynamiccertificates.CertKeyContentProvider = &Certificate{}

// NewCertificate returns a certificate of the CA in the Secret, which it makes where there is none.
func NewCertificate(ctx context.Context, o CertificateOptions) (*Certificate, error) {
	c := &Certificate{o: o}
	return c, c.renew(ctx, time.Now())
}

// Name implements dynamiccertificates.CertKeyContentProvider.
func (c *Certificate) Name() string { return "the certificate of " + c.o.Service.String() }

// CurrentCertKeyContent implements dynamiccertificates.CertKeyContentProvider.
func (c *Certificate) CurrentCertKeyContent() (certificate, key []byte) {
	now := c.current.Load()
	return now.cert, now.key
}

// AddListener implements dynamiccertificates.CertKeyContentProvider.
func (c *Certificate) AddListener(l dynamiccertificates.Listener) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.listeners = append(c.listeners, l)
}

// renew takes a certificate of the CA in the Secret, unless the current one is of that CA and does not end soon.
func (c *Certificate) renew(ctx context.Context, now time.Time) error {
	authority, err := c.authority(ctx, now)
	if err != nil {
		return fmt.Errorf("secret %s/%s: %w", c.o.Namespace, c.o.Secret, err)
	}
	if have := c.current.Load(); !ends(have, now) && bytes.Equal(have.ca, authority.pem()) {
		return nil
	}
	leaf, err := authority.sign(c.host(), now)
	if err != nil {
		return err
	}
	c.current.Store(leaf)
	c.o.Log.Info("a certificate was made", "host", c.host())
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, l := range c.listeners {
		l.Enqueue()
	}
	return nil
}

// host is the name that the API server expects.
func (c *Certificate) host() string { return c.o.Service.Name + "." + c.o.Service.Namespace + ".svc" }

func ends(have *content, now time.Time) bool {
	if have == nil {
		return true
	}
	pair, err := tls.X509KeyPair(have.cert, have.key)
	return err != nil || !now.Add(renewBefore).Before(pair.Leaf.NotAfter)
}

// authority is the CA.
type authority struct {
	cert *x509.Certificate
	key  crypto.Signer
}

func (a *authority) pem() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: cert.CertificateBlockType, Bytes: a.cert.Raw})
}

// authority returns the CA in the Secret, which it makes where there is none, or none that lives on.
func (c *Certificate) authority(ctx context.Context, now time.Time) (*authority, error) {
	secrets := c.o.Kube.CoreV1().Secrets(c.o.Namespace)
	have, err := secrets.Get(ctx, c.o.Secret, metav1.GetOptions{})
	missing := apierrors.IsNotFound(err)
	if err != nil && !missing {
		return nil, err
	}
	if !missing {
		if a, err := parse(have); err == nil && now.Add(renewBefore+leafLife).Before(a.cert.NotAfter) {
			return a, nil
		}
	}
	a, secret, err := newAuthority(c.o.Namespace, c.o.Secret)
	if err != nil {
		return nil, err
	}
	if missing {
		_, err = secrets.Create(ctx, secret, metav1.CreateOptions{})
	} else {
		secret.ResourceVersion = have.ResourceVersion
		_, err = secrets.Update(ctx, secret, metav1.UpdateOptions{})
	}
	if apierrors.IsAlreadyExists(err) || apierrors.IsConflict(err) { // another replica was faster
		if have, err = secrets.Get(ctx, c.o.Secret, metav1.GetOptions{}); err != nil {
			return nil, err
		}
		return parse(have)
	}
	return a, err
}

func newAuthority(namespace, name string) (*authority, *corev1.Secret, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	made, err := cert.NewSelfSignedCACert(cert.Config{CommonName: "roster-apiserver-ca", NotBefore: time.Now().Add(-clockSkew)}, key)
	if err != nil {
		return nil, nil, err
	}
	a := &authority{cert: made, key: key}
	encoded, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		return nil, nil, err
	}
	return a, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"app.kubernetes.io/part-of": "roster"}},
		Type:       corev1.SecretTypeTLS,
		Data:       map[string][]byte{corev1.TLSCertKey: a.pem(), corev1.TLSPrivateKeyKey: encoded},
	}, nil
}

func parse(secret *corev1.Secret) (*authority, error) {
	pair, err := tls.X509KeyPair(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey])
	if err != nil {
		return nil, err
	}
	signer, ok := pair.PrivateKey.(crypto.Signer)
	if !ok || !pair.Leaf.IsCA {
		return nil, errors.New("it holds no CA")
	}
	return &authority{cert: pair.Leaf, key: signer}, nil
}

// sign makes a key and a certificate for a host.
func (a *authority) sign(host string, now time.Time) (*content, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: host}, DNSNames: []string{host},
		NotBefore: now.Add(-clockSkew), NotAfter: now.Add(leafLife),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, a.cert, key.Public(), a.key)
	if err != nil {
		return nil, err
	}
	encoded, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		return nil, err
	}
	return &content{cert: pem.EncodeToMemory(&pem.Block{Type: cert.CertificateBlockType, Bytes: der}), key: encoded, ca: a.pem()}, nil
}
