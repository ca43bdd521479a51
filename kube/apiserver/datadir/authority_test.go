// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package datadir

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/roster-mesh/roster/kube/pki"
)

// brought writes a CA as it is brought, and returns its directory.
func brought(t *testing.T, ca pki.Pair) string {
	t.Helper()
	key, err := ca.KeyPEM()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, data := range map[string][]byte{broughtCert: ca.CertPEM(), broughtKey: key} {
		if err := os.WriteFile(filepath.Join(dir, name), data, fileMode); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func newAuthority(t *testing.T, now time.Time) pki.Pair {
	t.Helper()
	ca, err := pki.New(pki.Authority(pki.AuthorityName), nil, now, pki.AuthorityLife)
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

// A CA that is brought signs what the directory makes. It is brought once, and may be brought again; another one is not
// taken. One that was lost comes back.
func TestImportAuthority(t *testing.T) {
	t.Parallel()
	now := time.Now()
	ca := newAuthority(t, now)
	from := brought(t, ca)
	d := open(t, t.TempDir(), "v1.37.2", "alpha")
	for range 2 {
		if err := d.ImportAuthority(from, now); err != nil {
			t.Fatal(err)
		}
	}
	ensure(t, d, names, now, Admin, Agent, Serving)
	if !bytes.Equal(read(t, d.CAFile()), ca.CertPEM()) {
		t.Error("the directory has another CA")
	}
	admin, err := d.readPair(Admin)
	if err != nil {
		t.Fatal(err)
	}
	if err := admin.Cert.CheckSignatureFrom(ca.Cert); err != nil {
		t.Error(err)
	}

	other := brought(t, newAuthority(t, now))
	if err := d.ImportAuthority(other, now); !errors.Is(err, ErrOtherAuthority) {
		t.Errorf("another CA: %v", err)
	}
	if err := os.Remove(d.PairFile(authority)); err != nil {
		t.Fatal(err)
	}
	if err := d.ImportAuthority(other, now); !errors.Is(err, ErrOtherAuthority) {
		t.Errorf("another CA, in the place of one that was lost: %v", err)
	}
	if err := d.ImportAuthority(from, now); err != nil {
		t.Error(err)
	}
	ensure(t, d, names, now)
}

// A server that has its CA goes on with it until its end, and says then why not.
func TestAuthorityEnds(t *testing.T) {
	t.Parallel()
	now := time.Now()
	ca := newAuthority(t, now)
	from := brought(t, ca)
	d := open(t, t.TempDir(), "v1.37.2", "alpha")
	if err := d.ImportAuthority(from, now); err != nil {
		t.Fatal(err)
	}
	ensure(t, d, names, now, Admin, Agent, Serving)
	last := ca.Cert.NotAfter.Add(-time.Hour)
	if err := d.ImportAuthority(from, last); err != nil {
		t.Error(err)
	}
	ensure(t, d, names, last, Admin, Agent, Serving)
	if ends, err := d.AuthorityEnds(); err != nil || !ends.Equal(ca.Cert.NotAfter) {
		t.Errorf("it ends on %s: %v", ends, err)
	}
	if _, err := d.EnsurePKI(names, ca.Cert.NotAfter.Add(time.Hour)); err == nil || !strings.Contains(err.Error(), "ca.pem: its certificate ended on ") {
		t.Errorf("after its end: %v", err)
	}
}

// What is no CA is refused, with the file, and nothing of it is written or quoted.
func TestImportNoAuthority(t *testing.T) {
	t.Parallel()
	now := time.Now()
	ca := newAuthority(t, now)
	leaf, err := pki.New(pki.Client("somebody", "some"), &ca, now, pki.LeafLife)
	if err != nil {
		t.Fatal(err)
	}
	ending := newAuthority(t, now.Add(-pki.AuthorityLife+pki.LeafLife-time.Hour))
	ended := newAuthority(t, now.Add(-pki.AuthorityLife-time.Hour))
	wrongKey := brought(t, ca)
	if err := os.Rename(filepath.Join(brought(t, leaf), broughtKey), filepath.Join(wrongKey, broughtKey)); err != nil {
		t.Fatal(err)
	}
	noKey := brought(t, ca)
	if err := os.WriteFile(filepath.Join(noKey, broughtKey), []byte("secret nonsense"), fileMode); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ from, want string }{
		{brought(t, leaf), "its certificate is not that of a CA"},
		{brought(t, ended), "its certificate ended on "},
		{brought(t, ending), "a server begins with a CA that lives for a year at least"},
		{wrongKey, "tls.crt and tls.key: its key is not that of its certificate"},
		{noKey, "tls.crt and tls.key: it has no certificate and key in PEM"},
		{t.TempDir(), "tls.crt: no such file or directory"},
	} {
		d := open(t, t.TempDir(), "v1.37.2", "alpha")
		err := d.ImportAuthority(c.from, now)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "nonsense") {
			t.Errorf("%v, want %q", err, c.want)
		}
		if exists(d.Path("pki")) {
			t.Error("something was written")
		}
	}
}
