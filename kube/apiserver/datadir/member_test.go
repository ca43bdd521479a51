// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package datadir

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const version137 = "v1.37.2"

// ended is a context of somebody who does not wait for another process to end.
func ended(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

// A directory takes one bundle. The start with it can be repeated, and has the same instance then.
func TestJoin(t *testing.T) {
	t.Parallel()
	path := t.TempDir()
	d := open(t, path, version137, "alpha")
	first, err := d.Join("one", "192.0.2.1:7380")
	if err != nil || first.Instance == "" {
		t.Fatal(first, err)
	}
	if err := d.WriteShared(shared); err != nil {
		t.Fatal(err)
	}
	if again, err := d.Join("one", "192.0.2.1:7380"); err != nil || again != first {
		t.Errorf("again: %v, %v, want %v", again, err, first)
	}
	if first, err = d.Join("two", "192.0.2.1:7380"); err != nil || first.Instance == "" || first.Bundle != "two" {
		t.Errorf("after a bundle that came to nothing: %v, %v", first, err)
	}
	if err := os.MkdirAll(d.Path("etcd", "member", "wal"), dirMode); err != nil {
		t.Fatal(err)
	}
	if again, err := d.Join("two", "192.0.2.1:7380"); err != nil || again != first {
		t.Errorf("again, with data: %v, %v, want %v", again, err, first)
	}
	if _, err := d.Join("three", "192.0.2.1:7380"); err == nil {
		t.Error("a server took another bundle")
	}
	if err := d.SetPeer("192.0.2.2:7380"); err != nil {
		t.Fatal(err)
	}
	if m, err := d.Member(); err != nil || m != (Member{Peer: "192.0.2.2:7380", Bundle: "two", Instance: first.Instance}) {
		t.Errorf("after a move: %v, %v", m, err)
	}
}

// A server that was started is not made another one.
func TestJoinOfAServer(t *testing.T) {
	t.Parallel()
	d := open(t, t.TempDir(), version137, "alpha")
	ensure(t, d, names, time.Now(), Admin, Agent, Serving)
	if _, err := d.Join("one", "192.0.2.1:7380"); err == nil || !strings.Contains(err.Error(), "it has a server already") {
		t.Fatal(err)
	}
	if m, err := d.Member(); err != nil || m != (Member{}) {
		t.Error(m, err)
	}
}

// A directory does not begin an empty cluster when etcd's data are lost, nor, for a server of several, when its first start was
// cut off before etcd had begun.
func TestCheckBegun(t *testing.T) {
	t.Parallel()
	d := open(t, t.TempDir(), version137, "alpha")
	check := func(want string) {
		t.Helper()
		if err := d.CheckBegun(); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	check("")
	if _, err := d.Join("one", "192.0.2.1:7380"); err != nil {
		t.Fatal(err)
	}
	check("start with that --bundle again")
	wal := d.Path("etcd", "member", "wal")
	if err := os.MkdirAll(wal, dirMode); err != nil {
		t.Fatal(err)
	}
	check("")
	for range 2 {
		if err := d.SetStarted(); err != nil {
			t.Fatal(err)
		}
	}
	check("")
	if err := os.Remove(wal); err != nil {
		t.Fatal(err)
	}
	check("remove-member 192.0.2.1:7380")

	first := open(t, t.TempDir(), version137, "alpha")
	if err := first.SetPeer("192.0.2.2:7380"); err != nil {
		t.Fatal(err)
	}
	d = first
	check("") // it was killed before etcd had begun
	if err := d.SetStarted(); err != nil {
		t.Fatal(err)
	}
	check("remove-member 192.0.2.2:7380")

	d = open(t, t.TempDir(), version137, "alpha") // alone
	check("")
	if err := d.SetStarted(); err != nil {
		t.Fatal(err)
	}
	check("restore a snapshot")
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	d = open(t, d.Path(), "v1.38.0", "alpha") // a later version keeps that in mind
	check("restore a snapshot")
}

func TestDamagedMember(t *testing.T) {
	t.Parallel()
	d := open(t, t.TempDir(), version137, "alpha")
	for _, content := range []string{"", "{", "{}"} {
		if err := os.WriteFile(d.memberFile(), []byte(content), fileMode); err != nil {
			t.Fatal(err)
		}
		if _, err := d.Member(); err == nil || !strings.Contains(err.Error(), d.memberFile()+" is damaged") {
			t.Errorf("%q: %v", content, err)
		}
	}
}

var shared = map[string][]byte{fileCA: []byte("ca"), fileTokenKey: []byte("key"), filePeerCA: []byte("peer")}

// What another server brings is written where it belongs and nowhere else. Without its encryption key none is made.
func TestWriteShared(t *testing.T) {
	t.Parallel()
	d := open(t, t.TempDir(), version137, "alpha")
	for _, files := range []map[string][]byte{
		{},
		{fileCA: []byte("ca")},
		{fileCA: []byte("ca"), fileTokenKey: nil},
		{fileCA: []byte("ca"), fileTokenKey: []byte("key"), "../../etc/passwd": []byte("x")},
		{fileCA: []byte("ca"), fileTokenKey: []byte("key"), "server.json": []byte("x")},
	} {
		if err := d.WriteShared(files); err == nil {
			t.Errorf("%q was written", files)
		}
	}
	if err := d.WriteShared(shared); err != nil {
		t.Fatal(err)
	}
	if have := read(t, d.PairFile(peerAuthority)); string(have) != "peer" {
		t.Errorf("the CA is %q", have)
	}
	if _, err := d.EnsureEncryption(); err == nil || !strings.Contains(err.Error(), "encryption.yaml is missing") {
		t.Errorf("a key was made: %v", err)
	}
}

// The servers of two directories with the same shared files know each other, and nobody else.
func TestPeerCertificates(t *testing.T) {
	t.Parallel()
	now := time.Now()
	first := open(t, t.TempDir(), version137, "alpha")
	ensure(t, first, names, now, Admin, Agent, Serving)
	if _, err := first.EnsureEncryption(); err != nil {
		t.Fatal(err)
	}
	if written, err := first.EnsurePeerPKI("192.0.2.1", now); err != nil || !written {
		t.Fatal(written, err)
	}
	if written, err := first.EnsurePeerPKI("192.0.2.1", now); err != nil || written {
		t.Fatal(written, err)
	}
	files, err := first.Shared()
	if err != nil {
		t.Fatal(err)
	}
	second := open(t, t.TempDir(), version137, "alpha")
	if err := second.WriteShared(files); err != nil {
		t.Fatal(err)
	}
	ensure(t, second, names, now, Admin, Agent, Serving)
	if _, err := second.EnsurePeerPKI("two.example.com", now); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(read(t, first.PeerCAFile()), read(t, second.PeerCAFile())) || !bytes.Equal(read(t, first.CAFile()), read(t, second.CAFile())) {
		t.Error("they have different CAs")
	}
	leaf, err := second.readPair(Peer)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(read(t, first.PeerCAFile()))
	for _, usage := range []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth} {
		if _, err := leaf.Cert.Verify(x509.VerifyOptions{Roots: roots, DNSName: "two.example.com", KeyUsages: []x509.ExtKeyUsage{usage}}); err != nil {
			t.Error(err)
		}
	}
	admin, err := first.readPair(Admin)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := admin.Cert.Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); err == nil {
		t.Error("a client of the API is taken for a server")
	}
	if _, err := tls.LoadX509KeyPair(first.PairFile(Peer), first.PairFile(Peer)); err != nil {
		t.Error(err)
	}
}

func TestLostPeerCA(t *testing.T) {
	t.Parallel()
	d := open(t, t.TempDir(), version137, "alpha")
	if _, err := d.EnsurePeerPKI("192.0.2.1", time.Now()); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(d.PairFile(peerAuthority)); err != nil {
		t.Fatal(err)
	}
	if _, err := d.EnsurePeerPKI("192.0.2.1", time.Now()); err == nil || !strings.Contains(err.Error(), "peer-ca.pem is missing") {
		t.Fatal(err)
	}
}

// Another command sees whether a server uses the directory, and creates none.
func TestExisting(t *testing.T) {
	t.Parallel()
	path := t.TempDir()
	if _, _, err := Existing(path); err == nil || !strings.Contains(err.Error(), "no server.json") {
		t.Errorf("an empty directory: %v", err)
	}
	if entries, err := os.ReadDir(path); err != nil || len(entries) > 0 {
		t.Errorf("it has %v, %v now", entries, err)
	}
	d := open(t, path, version137, "alpha")
	other, running, err := Existing(path)
	if err != nil || !running {
		t.Fatal(running, err)
	}
	_ = other.Close()
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	other, running, err = Existing(path)
	if err != nil || running {
		t.Fatal(running, err)
	}
	if _, err := Open(ended(t), path, version137, "alpha"); err == nil {
		t.Error("a server was started meanwhile")
	}
	_ = other.Close()
	open(t, path, version137, "alpha")
}

// A directory that has anything is not restored into, and stays as it is.
func TestEmpty(t *testing.T) {
	t.Parallel()
	path := t.TempDir()
	file := filepath.Join(path, "file")
	if err := os.WriteFile(file, []byte("mine"), fileMode); err != nil {
		t.Fatal(err)
	}
	if _, err := Empty(path); err == nil || !strings.Contains(err.Error(), "it is not empty: it has file") {
		t.Errorf("a directory with a file: %v", err)
	}
	if _, err := Empty(file); err == nil {
		t.Error("a file was restored into")
	}
	if entries, err := os.ReadDir(path); err != nil || len(entries) != 1 || string(read(t, file)) != "mine" {
		t.Errorf("it has %v, %v now", entries, err)
	}
}

// Until a restore is complete no server starts on it; after an error nothing of it is left.
func TestRestored(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "new")
	d, err := Empty(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil { // as if it had been killed
		t.Fatal(err)
	}
	if _, err := Open(ended(t), path, version137, ""); err == nil || !strings.Contains(err.Error(), "was cut off") {
		t.Errorf("half a restore was opened: %v", err)
	}
	if _, err := Empty(path); err == nil || !strings.Contains(err.Error(), "was cut off") {
		t.Errorf("half a restore was restored into: %v", err)
	}
	if err := os.RemoveAll(path); err != nil {
		t.Fatal(err)
	}

	if d, err = Empty(path); err != nil {
		t.Fatal(err)
	}
	if err := d.Discard(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("the directory is left")
	}

	if d, err = Empty(path); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(d.Restoring("etcd"), dirMode); err != nil {
		t.Fatal(err)
	}
	if err := d.Restored(shared, Record{Kubernetes: version137, Name: "alpha"}); err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	restored := open(t, path, version137, "alpha")
	if r, err := restored.Record(); err != nil || r != (Record{Format: Format, Kubernetes: version137, Name: "alpha"}) {
		t.Error(r, err)
	}
}
