// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package members

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/roster-mesh/roster/kube/apiserver/datadir"
)

func sample() *Bundle {
	return &Bundle{
		Format: bundleFormat, ID: "id", Expires: time.Date(2030, 1, 1, 1, 0, 0, 0, time.UTC),
		Peer: "192.0.2.2:7380", Servers: []string{"one.example.com:7380", "[2001:db8::1]:7380"},
		Record: datadir.Record{Format: 1, Kubernetes: "v1.37.2", Name: "alpha"},
		Files:  map[string][]byte{"pki/ca.pem": []byte("ca"), "pki/service-account.key": []byte("key")},
	}
}

func encode(t *testing.T, b *Bundle) []byte {
	t.Helper()
	data, err := b.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestBundle(t *testing.T) {
	t.Parallel()
	data := encode(t, sample())
	file := filepath.Join(t.TempDir(), "bundle")
	if err := datadir.WriteFile(file, data); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Error(info.Mode(), err)
	}
	b, err := ReadBundle(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(sample(), b); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if err := b.CheckHour(b.Expires.Add(-time.Second)); err != nil {
		t.Error(err)
	}
	if err := b.CheckHour(b.Expires.Add(time.Second)); !errors.Is(err, ErrExpired) {
		t.Error(err)
	}
}

// A file of which a byte is missing or wrong is refused, and so is any other file.
func TestBadBundle(t *testing.T) {
	t.Parallel()
	data := encode(t, sample())
	for n := range data {
		if _, err := Decode(data[:n]); !errors.Is(err, ErrNoBundle) && !errors.Is(err, ErrDamaged) {
			t.Fatalf("%d bytes: %v", n, err)
		}
		wrong := bytes.Clone(data)
		wrong[n] ^= 1
		if _, err := Decode(wrong); !errors.Is(err, ErrNoBundle) && !errors.Is(err, ErrDamaged) {
			t.Fatalf("byte %d: %v", n, err)
		}
	}
	for name, change := range map[string]func(*Bundle){
		"path":      func(b *Bundle) { b.Files["../lock"] = []byte("x") },
		"no CA":     func(b *Bundle) { delete(b.Files, "pki/ca.pem") },
		"no ID":     func(b *Bundle) { b.ID = "" },
		"no hour":   func(b *Bundle) { b.Expires = time.Time{} },
		"no server": func(b *Bundle) { b.Servers = nil },
		"server":    func(b *Bundle) { b.Servers = []string{"0.0.0.0:1"} },
		"peer":      func(b *Bundle) { b.Peer = "here" },
	} {
		b := sample()
		change(b)
		if _, err := Decode(encode(t, b)); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: %v", name, err)
		}
	}
	b := sample()
	b.Format++
	if _, err := Decode(encode(t, b)); err == nil || !strings.Contains(err.Error(), "a later version wrote it") {
		t.Error(err)
	}
	file := filepath.Join(t.TempDir(), "large")
	if err := os.WriteFile(file, make([]byte, maxBundle+1), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadBundle(file); !errors.Is(err, ErrNoBundle) {
		t.Error(err)
	}
}

func TestTicket(t *testing.T) {
	t.Parallel()
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	later := now.Add(Life)
	free := ticket{Bundle: "b", Expires: later}
	used := ticket{Bundle: "b", Instance: "i", Expires: later}
	for _, c := range []struct {
		name, bundle, instance string
		have                   ticket
		at                     time.Time
		want                   error
	}{
		{"free", "b", "i", free, now, nil},
		{"free, late", "b", "i", free, later.Add(1), ErrExpired},
		{"again", "b", "i", used, now, nil},
		{"again, late", "b", "i", used, later.Add(1), nil},
		{"another server", "b", "j", used, now, ErrUsed},
		{"another server, late", "b", "j", used, later.Add(1), ErrUsed},
		{"none", "b", "i", ticket{}, now, ErrReplaced},
		{"another bundle", "c", "i", free, now, ErrReplaced},
		{"another bundle, used", "c", "i", used, now, ErrReplaced},
	} {
		got, err := c.have.admit(c.bundle, c.instance, c.at)
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
		if want := used; err == nil && got != want || err != nil && got != c.have {
			t.Errorf("%s: the ticket is %v", c.name, got)
		}
	}
	for name, c := range map[string]struct {
		have ticket
		at   time.Time
		ok   bool
	}{
		"none": {ticket{}, now, true}, "free": {free, now, true}, "used": {used, now, false}, "used, late": {used, later.Add(1), true},
	} {
		if err := c.have.replace(c.at); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}
