// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package visitors

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"
)

// writePair writes a certificate with a name into a folder, and links the files to it as a mounted Secret's are.
func writePair(t *testing.T, folder, name string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(folder, name), 0o700); err != nil {
		t.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{"tls.crt": {Type: "CERTIFICATE", Bytes: der}, "tls.key": {Type: "PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(filepath.Join(folder, name, file), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	link(t, folder, name)
}

func link(t *testing.T, folder, name string) {
	t.Helper()
	next := filepath.Join(folder, "next")
	if err := os.Symlink(name, next); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(next, filepath.Join(folder, "data")); err != nil {
		t.Fatal(err)
	}
}

func TestCertificateIsReadAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		folder := t.TempDir()
		writePair(t, folder, "one")
		var failures []error
		c, err := LoadCertificate(filepath.Join(folder, "data", "tls.crt"), filepath.Join(folder, "data", "tls.key"), func(err error) { failures = append(failures, err) })
		if err != nil {
			t.Fatal(err)
		}
		served := func() string {
			t.Helper()
			pair, err := c.Of(nil)
			if err != nil {
				t.Fatal(err)
			}
			return pair.Leaf.Subject.CommonName
		}
		is := func(want string) {
			t.Helper()
			if name := served(); name != want {
				t.Errorf("served with %s, want %s", name, want)
			}
			time.Sleep(reread)
		}
		is("one")
		writePair(t, folder, "two")
		is("two")
		if err := os.Mkdir(filepath.Join(folder, "empty"), 0o700); err != nil {
			t.Fatal(err)
		}
		link(t, folder, "empty")
		is("two")
		is("two")
		if len(failures) != 1 {
			t.Errorf("failures %v", failures)
		}
		writePair(t, folder, "four")
		is("four")
	})
	if _, err := LoadCertificate("no/such/file", "no/such/file", nil); err == nil {
		t.Error("files that are not there are no error")
	}
}
