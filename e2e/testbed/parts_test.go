// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestPortsStayTheSame(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ports.json")
	first, err := loadPorts(t.Context(), path, newChooser())
	if err != nil {
		t.Fatal(err)
	}
	again, err := loadPorts(t.Context(), path, newChooser())
	if err != nil || again != first {
		t.Errorf("second load: %v, %v; want %v", again, err, first)
	}
}

func TestOccupiedPortsAreReplaced(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ports.json")
	chosen := newChooser()
	first, err := loadPorts(t.Context(), path, chosen)
	if err != nil {
		t.Fatal(err)
	}
	again, err := loadPorts(t.Context(), path, chosen) // Another plane of this run has them.
	if err != nil {
		t.Fatal(err)
	}
	for i, port := range again.all() {
		if port == first.all()[i] {
			t.Errorf("port %d was handed out twice", port)
		}
	}
}

func TestTakeRefusesAnOpenPort(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if newChooser().take(t.Context(), l.Addr().(*net.TCPAddr).Port) {
		t.Error("took a port that something listens on")
	}
}

func TestDamagedPortsFileIsAnError(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ports.json")
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := loadPorts(t.Context(), path, newChooser()); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("error %v does not name the file", err)
	}
}

func TestKeysAreMadeOnceAndFitTogether(t *testing.T) {
	t.Parallel()
	keys := pki{dir: filepath.Join(t.TempDir(), "pki")}
	if err := keys.ensure(); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(keys.path("ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	if err := keys.ensure(); err != nil {
		t.Fatal(err)
	}
	after, err := os.ReadFile(keys.path("ca.crt"))
	if err != nil || !bytes.Equal(before, after) {
		t.Errorf("the second call changed the authority (%v)", err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(before)
	for name, usage := range map[string]x509.ExtKeyUsage{
		"apiserver": x509.ExtKeyUsageServerAuth,
		"admin":     x509.ExtKeyUsageClientAuth,
	} {
		pair, err := tls.LoadX509KeyPair(keys.path(name+".crt"), keys.path(name+".key"))
		if err != nil {
			t.Fatal(err)
		}
		options := x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{usage}}
		if _, err := pair.Leaf.Verify(options); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestLastLine(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ content, want string }{
		"one of several": {"first\nsecond\n", "second"},
		"empty":          {"", ""},
		"long":           {strings.Repeat("x", 5000), strings.Repeat("x", 300) + "…"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "log")
			if err := os.WriteFile(path, []byte(test.content), 0o600); err != nil {
				t.Fatal(err)
			}
			if got := lastLine(path); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
	if got := lastLine(filepath.Join(t.TempDir(), "absent")); got != "" {
		t.Errorf("absent log: got %q", got)
	}
}

// A directory whose path is longer than the address of a unix socket can hold.
func TestControlSocketInALongDirectory(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), strings.Repeat("d", 120))
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	bed := &Testbed{dir: dir, out: &out}
	stop, err := bed.serve(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	if _, err := os.Stat(filepath.Join(dir, "testbed.sock")); err != nil {
		t.Error(err)
	}
	got, err := call(t.Context(), dir, request{Op: "status"})
	if err != nil || !strings.HasPrefix(got, "COMPONENT") {
		t.Errorf("status: %q, %v", got, err)
	}
}

// A silent client must not keep the program from ending.
func TestSilentClientDoesNotBlockTheEnd(t *testing.T) {
	t.Parallel()
	ctx, cancel := contextOf(t)
	bed := &Testbed{dir: t.TempDir(), out: new(bytes.Buffer)}
	stop, err := bed.serve(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var dialer net.Dialer
	conn, err := dialer.DialContext(t.Context(), "unix", filepath.Join(bed.dir, "testbed.sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	cancel()
	stop() // Returns, or the test run ends with a stack that names this line.
}
