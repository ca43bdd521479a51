// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"time"

	"github.com/roster-mesh/roster/mesh/trust"
)

// pemType is the PEM block of a PKCS#8 key.
const pemType = "PRIVATE KEY"

// ErrPrivateKey is returned when stored key material is not one PEM block with
// an Ed25519 key in PKCS#8 form. It never carries any of the material.
var ErrPrivateKey = errors.New("private key is not an Ed25519 key in PEM (PKCS#8)")

// Identity is who a cluster is in the mesh: its clusterID, and the key that
// every member of the group has pinned for it. It prints as its clusterID.
type Identity struct {
	ClusterID  string
	PrivateKey ed25519.PrivateKey
}

// GenerateKey makes the key of a new identity.
func GenerateKey() (ed25519.PrivateKey, error) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	return key, err
}

// MarshalPrivateKey encodes a key as PEM (PKCS#8).
func MarshalPrivateKey(key ed25519.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, ErrPrivateKey
	}
	return pem.EncodeToMemory(&pem.Block{Type: pemType, Bytes: der}), nil
}

// ParsePrivateKey is the inverse of MarshalPrivateKey.
func ParsePrivateKey(data []byte) (ed25519.PrivateKey, error) {
	block, _ := pem.Decode(data)
	if block == nil || block.Type != pemType {
		return nil, ErrPrivateKey
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, ErrPrivateKey
	}
	key, ok := parsed.(ed25519.PrivateKey)
	if !ok {
		return nil, ErrPrivateKey
	}
	return key, nil
}

// PublicKey is what others pin.
func (i Identity) PublicKey() ed25519.PublicKey {
	public, _ := i.PrivateKey.Public().(ed25519.PublicKey)
	return public
}

// String, GoString and LogValue keep the private key out of every print.
func (i Identity) String() string { return i.ClusterID }

// GoString is what %#v prints.
func (i Identity) GoString() string { return fmt.Sprintf("mesh.Identity(%q)", i.ClusterID) }

// LogValue is what a log handler prints.
func (i Identity) LogValue() slog.Value { return slog.StringValue(i.ClusterID) }

// check refuses an identity that no peer could pin.
func (i Identity) check() error {
	if !trust.ValidID(i.ClusterID) {
		return fmt.Errorf("%w: %q", trust.ErrInvalidPin, i.ClusterID)
	}
	if len(i.PrivateKey) != ed25519.PrivateKeySize {
		return ErrPrivateKey
	}
	return nil
}

// certificate wraps the key for TLS. Nothing in it but the key is read by the
// peer: who owns a key is a question for the pin table, and dates are ignored
// because clusters must not lose each other over a wrong clock.
func (i Identity) certificate() (tls.Certificate, error) {
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		Subject:      pkix.Name{CommonName: "roster"},
		NotBefore:    time.Unix(0, 0),                                  //nolint:forbidigo // any date will do, and nobody reads it
		NotAfter:     time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC), //nolint:forbidigo // RFC 5280: no well-defined end
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, i.PublicKey(), i.PrivateKey)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("self-sign certificate: %w", err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: i.PrivateKey}, nil
}
