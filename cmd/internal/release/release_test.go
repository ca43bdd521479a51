// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	spdxjson "github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx/v2/common"
	spdx "github.com/spdx/tools-golang/spdx/v2/v2_3"
	"github.com/spdx/tools-golang/spdxlib"
	"sigs.k8s.io/yaml"

	"github.com/roster-mesh/roster/e2e/documents"
)

// newRelease is a release of small binaries into a directory of its own.
func newRelease(t *testing.T) *release {
	t.Helper()
	dir := t.TempDir()
	host := filepath.Join(dir, "agentctl")
	if err := os.WriteFile(host, []byte("#!/bin/sh\necho \"$1 of $2\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for path, text := range map[string]string{
		"goroot/LICENSE": "Go's terms", "goroot/src/LICENSE": "of no program",
		"modules/example.com/!a_b@v1.0.0+incompatible/LICENCE.md": "shared terms\r\n", "modules/example.com/fork@v2.0.0/COPYING": "shared terms",
		"modules/example.com/fork@v2.0.0/inner/NOTICE": "a notice", "modules/example.com/fork@v2.0.0/testdata/LICENSE": "of a test",
	} {
		path = filepath.Join(dir, path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	out := filepath.Join(dir, "dist")
	if err := os.Mkdir(out, 0o755); err != nil {
		t.Fatal(err)
	}
	return &release{
		modules: filepath.Join(dir, "modules"), goroot: filepath.Join(dir, "goroot"),
		version: "1.2.3", commit: "0123abcd", date: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), images: images(), platforms: imagePlatforms(), limit: maxImage,
		chart: "../../../charts/agent", license: "../../../LICENSE", host: host, out: out,
		binary: func(name string, p platform) (*binary, error) {
			data := []byte(name + " for " + p.String())
			return &binary{name, p, data, sha256.Sum256(data), &debug.BuildInfo{
				GoVersion: "go1.26.8 X:some", Main: debug.Module{Path: "github.com/roster-mesh/roster"},
				Deps: []*debug.Module{
					{Path: "example.com/A_b", Version: "v1.0.0+incompatible", Sum: "h1:x"},
					{Path: "example.com/" + p.os, Version: "v1.0.0", Replace: &debug.Module{Path: "example.com/fork", Version: "v2.0.0"}},
					{Path: "github.com/roster-mesh/roster", Version: "v0.0.0", Replace: &debug.Module{Path: "../..", Version: "(devel)"}},
				},
			}}, nil
		},
	}
}

func (r *release) everything() error {
	for _, i := range r.images {
		if err := r.writeImage(io.Discard, i); err != nil {
			return err
		}
	}
	for _, step := range []func() error{r.writeArchives, r.writeKrew, r.writeChart, r.writeSums} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func TestTheSameTwice(t *testing.T) {
	t.Parallel()
	docs := documents.NewReader("../../..")
	var sums [2]string
	for i := range sums {
		r := newRelease(t)
		if err := r.everything(); err != nil {
			t.Fatal(err)
		}
		sums[i] = string(contents(t, r, "SHA256SUMS"))
		verified(t, r, docs)
	}
	if diff := cmp.Diff(sums[0], sums[1]); diff != "" || strings.Count(sums[0], "\n") != 15 {
		t.Errorf("two releases of one commit:\n%s\n%s", sums[0], diff)
	}
	if err := docs.Untyped("cmd/internal/release.TestTheSameTwice"); err != nil {
		t.Error(err)
	}
}

// verified types what docs/release.md says about a release that somebody has downloaded.
func verified(t *testing.T, r *release, docs *documents.Reader) {
	t.Helper()
	line, err := docs.Lines(documents.Release, "sha256sum")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "sh", "-euc", line)
	cmd.Dir = r.out
	if out, err := cmd.CombinedOutput(); err != nil || strings.Count(string(out), ": OK\n") != 15 {
		t.Errorf("%s: %v\n%s", line, err, out)
	}
}

func TestArchives(t *testing.T) {
	t.Parallel()
	r := newRelease(t)
	if err := r.writeArchives(); err != nil {
		t.Fatal(err)
	}
	const darwin = "agentctl-1.2.3-darwin-arm64/"
	got := gunzip(t, contents(t, r, "agentctl-1.2.3-darwin-arm64.tar.gz"))
	if string(got[darwin+"agentctl"]) != "agentctl for darwin/arm64" || string(got[darwin+"completion/_agentctl"]) != "completion of zsh\n" ||
		!strings.Contains(string(got[darwin+"LICENSE"]), "Apache License") || len(got) != 6 {
		t.Errorf("darwin: %v", names(got))
	}
	got = gunzip(t, contents(t, r, "agent-1.2.3-linux-arm64.tar.gz"))
	if string(got["agent-1.2.3-linux-arm64/agent"]) != "agent for linux/arm64" || len(got) != 3 {
		t.Errorf("agent: %v", names(got))
	}
	zipped := contents(t, r, "agentctl-1.2.3-windows-amd64.zip")
	zr, err := zip.NewReader(bytes.NewReader(zipped), int64(len(zipped)))
	if err != nil {
		t.Fatal(err)
	}
	if len(zr.File) != 3 || zr.File[0].Name != "agentctl-1.2.3-windows-amd64/agentctl.exe" || !zr.File[0].Modified.Equal(r.date) {
		t.Errorf("windows: %d files, the first %+v", len(zr.File), zr.File[0].FileHeader)
	}
}

// krew finds each archive by its checksum, and in it the program.
func TestKrew(t *testing.T) {
	t.Parallel()
	r := newRelease(t)
	if err := r.writeArchives(); err != nil {
		t.Fatal(err)
	}
	if err := r.writeKrew(); err != nil {
		t.Fatal(err)
	}
	var m krewManifest
	if err := yaml.UnmarshalStrict(contents(t, r, "roster.yaml"), &m); err != nil {
		t.Fatal(err)
	}
	if m.Metadata["name"] != "roster" || m.Spec.Version != "v1.2.3" || len(m.Spec.Short) > 50 || len(m.Spec.Platforms) != len(clientPlatforms()) {
		t.Errorf("manifest %+v", m)
	}
	for _, p := range m.Spec.Platforms {
		_, archive, found := strings.Cut(p.URI, "/releases/download/v1.2.3/")
		data := contents(t, r, archive)
		if !found || p.SHA256 != fmt.Sprintf("%x", sha256.Sum256(data)) {
			t.Errorf("%s has the checksum %s", p.URI, p.SHA256)
		}
		if strings.HasSuffix(archive, ".zip") {
			continue
		}
		for _, f := range p.Files {
			if _, there := gunzip(t, data)[f["from"]]; !there {
				t.Errorf("%s has no %s", archive, f["from"])
			}
		}
	}
}

func TestChart(t *testing.T) {
	t.Parallel()
	r := newRelease(t)
	r.chart = t.TempDir()
	for name, text := range map[string]string{
		"Chart.yaml": "apiVersion: v2\nname: agent\nversion: 0.1.0\nappVersion: 0.1.0\n", "values.yaml": "a: 1\n",
		".helmignore": "# not for users\n*.golden\ntests/\n/docs/a.md\n", "x.golden": "x", "tests/a.yaml": "x", "docs/a.md": "x", "docs/b.md": "x",
	} {
		path := filepath.Join(r.chart, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.writeChart(); err != nil {
		t.Fatal(err)
	}
	got := gunzip(t, contents(t, r, "agent-1.2.3.tgz"))
	if want := []string{"agent/Chart.yaml", "agent/docs/b.md", "agent/values.yaml"}; !slices.Equal(names(got), want) {
		t.Errorf("packed %v, want %v", names(got), want)
	}
	if want := "apiVersion: v2\nname: agent\nversion: 1.2.3\nappVersion: 1.2.3\n"; string(got["agent/Chart.yaml"]) != want {
		t.Errorf("Chart.yaml:\n%s", got["agent/Chart.yaml"])
	}
	for _, bad := range []struct{ name, text string }{{"Chart.yaml", "version: 1\n"}, {".helmignore", "!x\n"}} {
		if err := os.WriteFile(filepath.Join(r.chart, bad.name), []byte(bad.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := r.writeChart(); !errors.Is(err, errChart) || !strings.Contains(err.Error(), bad.name) {
			t.Errorf("%s with %q: err = %v", bad.name, bad.text, err)
		}
	}
}

func TestSBOM(t *testing.T) {
	t.Parallel()
	r := newRelease(t)
	if err := r.writeArchives(); err != nil {
		t.Fatal(err)
	}
	data := contents(t, r, "agentctl-1.2.3.spdx.json")
	doc, err := spdxjson.Read(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	if err := spdxlib.ValidateDocument(doc); err != nil {
		t.Error(err)
	}
	if !bytes.Contains(data, []byte(`"filesAnalyzed": false`)) || bytes.Contains(data, []byte(`"filesAnalyzed": true`)) {
		t.Error("files are said to be listed")
	}
	ids := map[common.ElementID]*spdx.Package{}
	for _, p := range doc.Packages {
		if ids[p.PackageSPDXIdentifier] != nil {
			t.Errorf("%s is there twice", p.PackageSPDXIdentifier)
		}
		ids[p.PackageSPDXIdentifier] = p
	}
	described := 0
	for _, rel := range doc.Relationships {
		if rel.Relationship == common.TypeRelationshipDescribe {
			described++
		}
	}
	if described != 6 || len(ids) != 6+3 {
		t.Errorf("%d binaries are described, %d packages are listed", described, len(ids))
	}
	for id, want := range map[common.ElementID]struct{ purl, licence string }{
		"Module-stdlib-1.26.8":                             {"pkg:golang/stdlib@1.26.8", noAssertion},
		"Module-example.com-A-x5fb-v1.0.0-x2bincompatible": {"pkg:golang/example.com/a_b@v1.0.0%2Bincompatible", noAssertion},
		"Module-example.com-fork-v2.0.0":                   {"pkg:golang/example.com/fork@v2.0.0", noAssertion},
		"Binary-agentctl-linux-arm64":                      {"pkg:golang/github.com/roster-mesh/roster@1.2.3", license},
	} {
		if p := ids[id]; p == nil || p.PackageExternalReferences[0].Locator != want.purl || p.PackageLicenseDeclared != want.licence {
			t.Errorf("%s: %+v", id, p)
		}
	}
	windows := ids["Binary-agentctl-windows-amd64"]
	if want := fmt.Sprintf("%x", sha256.Sum256([]byte("agentctl for windows/amd64"))); windows.PackageChecksums[0].Value != want {
		t.Errorf("checksum %s, want %s", windows.PackageChecksums[0].Value, want)
	}
}

func TestBadCommandLineNamesTheFlag(t *testing.T) {
	t.Parallel()
	const date = "-date=2026-01-02T03:04:05Z"
	for want, args := range map[string][]string{
		"no-such":          {"-no-such", "image"},
		"apiserver or all": {"-version=1.2.3", date},
		"-version":         {"-version=v1.2", date, "image"},
		"1.2.3+x":          {"-version=1.2.3+x", date, "image"},
		"-date":            {"-version=1.2.3", "-date=today", "image"},
		"-image":           {"-version=1.2.3", date, "-image=roster-mesh/agent:tag", "image"},
		"host first":       {"-version=1.2.3", date, "-image=roster-mesh/agent", "image"},
		"-image-apiserver": {"-version=1.2.3", date, "-image-apiserver=a b", "image"},
		"-platforms":       {"-version=1.2.3", date, "-platforms=linux/amd64 plan9/arm", "image"},
	} {
		if err := run(args, io.Discard); !errors.Is(err, errUsage) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: err = %v, want one with %q", args, err, want)
		}
	}
	dir := t.TempDir()
	if err := run([]string{"-version=1.2.3", date, "-binaries=" + dir, "-out=" + dir, "image"}, io.Discard); !errors.Is(err, errNotBuilt) {
		t.Errorf("no binaries: err = %v", err)
	}
}

func TestForeignBinaryIsRefused(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, content := range map[string][]byte{"agent": data, "agentctl": []byte("#!/bin/sh\n")} {
		path := filepath.Join(dir, "plan9_arm", name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, content, 0o600)); err != nil {
			t.Fatal(err)
		}
		if _, err := readBinary(dir, name, platform{"plan9", "arm"}); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: err = %v", name, err)
		}
	}
}

func contents(t *testing.T, r *release, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(r.out, name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func gunzip(t *testing.T, data []byte) map[string][]byte {
	t.Helper()
	zr, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	return untar(t, zr)
}

// untar also checks that nothing of this machine is in the tar.
func untar(t *testing.T, r io.Reader) map[string][]byte {
	t.Helper()
	out := map[string][]byte{}
	for tr := tar.NewReader(r); ; {
		header, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		if header.Uname != "" || header.ModTime.Unix() != 1767323045 || header.Uid != 0 && header.Name != "var/lib/roster/" {
			t.Errorf("%s: of %q (%d), %s", header.Name, header.Uname, header.Uid, header.ModTime)
		}
		if header.Typeflag != tar.TypeReg {
			continue
		}
		if out[header.Name], err = io.ReadAll(tr); err != nil {
			t.Fatal(err)
		}
	}
}

func names(files map[string][]byte) []string {
	out := make([]string, 0, len(files))
	for name := range files {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}
