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
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"

	view "github.com/roster-mesh/roster/kube/api/registry/v1alpha1"
	"github.com/roster-mesh/roster/kube/apiserver/waiting"
)

const (
	caLife   = 10 * 365 * 24 * time.Hour
	leafLife = 90 * 24 * time.Hour
	// renewBefore is how long before its end a certificate is replaced. A CA is so early enough for all that it signs.
	renewBefore = leafLife / 3
	// clockSkew is how far the clock of the API server may be behind.
	clockSkew = time.Hour
	// lookEvery is how often the Secret and the APIService are looked at.
	lookEvery = time.Hour
)

// Certificate is the server's own: signed by a CA that all its replicas share, in a Secret, and that the APIService names.
type Certificate struct {
	o       CertificateOptions
	current atomic.Pointer[content]
	ca      []byte // PEM of the CA that has signed the current one
}

type content struct{ cert, key []byte }

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

// NewCertificate returns a certificate that the APIService knows, and has made what of it was missing.
func NewCertificate(ctx context.Context, o CertificateOptions) (*Certificate, error) {
	c := &Certificate{o: o}
	return c, c.ensure(ctx, time.Now())
}

// Name implements dynamiccertificates.CertKeyContentProvider.
func (c *Certificate) Name() string { return "the certificate of " + c.o.Service.String() }

// CurrentCertKeyContent implements dynamiccertificates.CertKeyContentProvider.
func (c *Certificate) CurrentCertKeyContent() (certificate, key []byte) {
	now := c.current.Load()
	return now.cert, now.key
}

// AddListener implements dynamiccertificates.CertKeyContentProvider. The server looks once a minute by itself.
func (c *Certificate) AddListener(dynamiccertificates.Listener) {}

// Keep renews the certificate before it ends, and puts back what somebody took away, until ctx ends.
func (c *Certificate) Keep(ctx context.Context) {
	for {
		if waiting.Sleep(ctx, lookEvery); ctx.Err() != nil {
			return
		}
		if err := c.ensure(ctx, time.Now()); err != nil && ctx.Err() == nil {
			c.o.Log.Error("the certificate cannot be kept", "error", err)
		}
	}
}

// ensure makes what is missing: the CA, a certificate of it, and its name in the APIService.
func (c *Certificate) ensure(ctx context.Context, now time.Time) error {
	authority, err := c.authority(ctx, now)
	if err != nil {
		return fmt.Errorf("secret %s/%s: %w", c.o.Namespace, c.o.Secret, err)
	}
	bundle := authority.pem()
	if !bytes.Equal(bundle, c.ca) || ends(c.current.Load(), now) {
		leaf, err := authority.sign(c.host(), now)
		if err != nil {
			return err
		}
		c.current.Store(leaf)
		c.ca = bundle
		c.o.Log.Info("a certificate was made", "host", c.host())
	}
	if err := c.tell(ctx, bundle); err != nil {
		return fmt.Errorf("apiservice %s: %w", c.o.APIService, err)
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

var apiServices = schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"} //nolint:gochecknoglobals // never changed

// tell makes the APIService name the CA.
func (c *Certificate) tell(ctx context.Context, bundle []byte) error {
	client := c.o.Dynamic.Resource(apiServices)
	have, err := client.Get(ctx, c.o.APIService, metav1.GetOptions{})
	if err != nil {
		return err
	}
	want := base64.StdEncoding.EncodeToString(bundle)
	if is, _, _ := unstructured.NestedString(have.Object, "spec", "caBundle"); is == want {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"resourceVersion": have.GetResourceVersion()}, "spec": map[string]any{"caBundle": want}})
	if err != nil {
		return err
	}
	_, err = client.Patch(ctx, c.o.APIService, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: "roster-apiserver"})
	return err
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
	made, err := cert.NewSelfSignedCACert(cert.Config{CommonName: "roster-apiserver-ca"}, key)
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
	return &content{cert: pem.EncodeToMemory(&pem.Block{Type: cert.CertificateBlockType, Bytes: der}), key: encoded}, nil
}

// APIServiceName is that of the APIService of the registry API.
func APIServiceName() string { return view.SchemeGroupVersion.Version + "." + view.GroupName }
