// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package datadir

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/roster-mesh/roster/kube/pki"
)

var names = Names{Hosts: []string{"api.example.com", "192.0.2.7"}, AgentUser: "system:serviceaccount:ns:agent"}

func ensure(t *testing.T, d *Dir, n Names, now time.Time, want ...string) {
	t.Helper()
	written, err := d.EnsurePKI(n, now)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(written, want) {
		t.Fatalf("wrote %v, want %v", written, want)
	}
}

// Certificates are made once, again when their names change, and again before they end; CA and token key stay.
func TestCertificates(t *testing.T) {
	t.Parallel()
	d := open(t, t.TempDir(), "v1.37.2", "alpha")
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	ensure(t, d, names, now, Admin, Agent, Serving)
	ensure(t, d, names, now)
	ca, key := read(t, d.CAFile()), read(t, d.ServiceAccountKeyFile())

	moved := Names{Hosts: []string{"other.example.com"}, AgentUser: names.AgentUser}
	ensure(t, d, moved, now, Serving)
	ensure(t, d, moved, now.Add(pki.LeafLife-renewBefore-time.Hour))
	ensure(t, d, moved, now.Add(pki.LeafLife-renewBefore+time.Hour), Admin, Agent, Serving)

	serving, err := d.readPair(Serving)
	if err != nil {
		t.Fatal(err)
	}
	for _, host := range []string{"other.example.com", "localhost", "127.0.0.1", "::1"} {
		if err := serving.Cert.VerifyHostname(host); err != nil {
			t.Error(err)
		}
	}
	agent, err := d.readPair(Agent)
	if err != nil {
		t.Fatal(err)
	}
	if agent.Cert.Subject.CommonName != names.AgentUser {
		t.Errorf("the agent is %s", agent.Cert.Subject.CommonName)
	}
	if !bytes.Equal(ca, read(t, d.CAFile())) || !bytes.Equal(key, read(t, d.ServiceAccountKeyFile())) {
		t.Error("the CA or the token key was replaced")
	}
}

// A CA that is lost is not replaced: no client would trust the new one.
func TestLostCA(t *testing.T) {
	t.Parallel()
	d := open(t, t.TempDir(), "v1.37.2", "alpha")
	ensure(t, d, names, time.Now(), Admin, Agent, Serving)
	if err := os.Remove(d.PairFile(authority)); err != nil {
		t.Fatal(err)
	}
	if _, err := d.EnsurePKI(names, time.Now()); err == nil || !strings.Contains(err.Error(), "ca.pem is missing") {
		t.Fatalf("without its CA: %v", err)
	}
}

// A file that is damaged is named, and not replaced.
func TestDamagedCertificate(t *testing.T) {
	t.Parallel()
	for _, name := range []string{authority, Serving, Agent} {
		d := open(t, t.TempDir(), "v1.37.2", "alpha")
		ensure(t, d, names, time.Now(), Admin, Agent, Serving)
		for _, content := range []string{"", "nonsense", string(read(t, d.PairFile(name))[:300])} {
			if err := os.WriteFile(d.PairFile(name), []byte(content), fileMode); err != nil {
				t.Fatal(err)
			}
			if _, err := d.EnsurePKI(names, time.Now()); err == nil || !strings.Contains(err.Error(), d.PairFile(name)+" is damaged") {
				t.Errorf("%s with %d bytes: %v", name, len(content), err)
			}
			if have := read(t, d.PairFile(name)); string(have) != content {
				t.Errorf("%s was replaced", name)
			}
		}
	}
}

// Nobody but the owner may read what is in the directory, and nothing unfinished stays in it.
func TestModes(t *testing.T) {
	t.Parallel()
	d := open(t, filepath.Join(t.TempDir(), "new"), "v1.37.2", "alpha")
	ensure(t, d, names, time.Now(), Admin, Agent, Serving)
	if _, err := d.EnsureEncryption(); err != nil {
		t.Fatal(err)
	}
	if err := d.WriteKubeconfigs("https://127.0.0.1:6443"); err != nil {
		t.Fatal(err)
	}
	err := filepath.WalkDir(d.Path(), func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		if info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %o", path, info.Mode().Perm())
		}
		if strings.HasPrefix(entry.Name(), ".") {
			t.Errorf("%s was left behind", path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// The data may lie in an etcd elsewhere: a start that got further than the key had one.
func TestEncryptionOfAnotherEtcd(t *testing.T) {
	t.Parallel()
	d := open(t, t.TempDir(), "v1.37.2", "alpha")
	ensure(t, d, names, time.Now(), Admin, Agent, Serving)
	if err := d.WriteKubeconfigs("https://127.0.0.1:6443"); err != nil {
		t.Fatal(err)
	}
	if _, err := d.EnsureEncryption(); err == nil || !strings.Contains(err.Error(), "encryption.yaml is missing") {
		t.Fatalf("without the key: %v", err)
	}
}

// The key of Secrets is made once, and not again where something may be encrypted with another one.
func TestEncryption(t *testing.T) {
	t.Parallel()
	d := open(t, t.TempDir(), "v1.37.2", "alpha")
	path, err := d.EnsureEncryption()
	if err != nil {
		t.Fatal(err)
	}
	first := read(t, path)
	if _, err := d.EnsureEncryption(); err != nil || !bytes.Equal(first, read(t, path)) {
		t.Fatalf("the key was replaced: %v", err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(d.Path("etcd"), dirMode); err != nil {
		t.Fatal(err)
	}
	if _, err := d.EnsureEncryption(); err == nil || !strings.Contains(err.Error(), "encryption.yaml is missing") {
		t.Fatalf("without the key: %v", err)
	}
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
