// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	"sigs.k8s.io/yaml"
)

func TestImages(t *testing.T) {
	t.Parallel()
	for i, want := range []struct {
		file, repository string
		programs         []string // the last is what a container runs
	}{
		{"roster-agent-1.2.3.tar", "docker.io/roster-mesh/agent", []string{"agentctl", "agent"}},
		{"roster-apiserver-1.2.3.tar", "docker.io/roster-mesh/roster-apiserver", []string{"roster-apiserver"}},
	} {
		r := newRelease(t)
		if err := r.writeImage(io.Discard, r.images[i]); err != nil {
			t.Fatal(err)
		}
		index := unpacked(t, r, want.file, want.repository+":1.2.3")
		for i, d := range manifests(t, index) {
			arch := []string{"amd64", "arm64"}[i]
			if d.Platform == nil || d.Platform.String() != "linux/"+arch {
				t.Errorf("manifest %d is for %v, want %s", i, d.Platform, arch)
			}
			img, err := index.Image(d.Digest)
			if err != nil {
				t.Fatal(err)
			}
			checkImage(t, img, arch, want.programs)
			checkLegacy(t, filepath.Join(r.out, want.file), img, want.repository+":1.2.3-"+arch)
		}
	}
}

// unpacked is the image in a tar, which has that name.
func unpacked(t *testing.T, r *release, file, name string) v1.ImageIndex {
	t.Helper()
	dir := t.TempDir()
	for name, data := range untar(t, bytes.NewReader(contents(t, r, file))) {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, data, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	root, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(root); err != nil {
		t.Error(err)
	}
	top := manifests(t, root)
	want := map[string]string{"io.containerd.image.name": name, "org.opencontainers.image.ref.name": "1.2.3"}
	if diff := cmp.Diff(want, top[0].Annotations); diff != "" || len(top) != 1 || top[0].MediaType != types.OCIImageIndex {
		t.Fatalf("index.json %+v\n%s", top, diff)
	}
	index, err := root.ImageIndex(top[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	return index
}

func checkImage(t *testing.T, img v1.Image, arch string, programs []string) {
	t.Helper()
	manifest, err := img.Manifest()
	if err != nil {
		t.Fatal(err)
	}
	config, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	for _, said := range []map[string]string{manifest.Annotations, config.Config.Labels} {
		for key, want := range map[string]string{
			"version": "1.2.3", "revision": "0123abcd", "created": "2026-01-02T03:04:05Z", "licenses": "Apache-2.0",
		} {
			if got := said["org.opencontainers.image."+key]; got != want {
				t.Errorf("%s: %s is %q, want %q", arch, key, got, want)
			}
		}
	}
	if config.OS != "linux" || config.Architecture != arch || config.Config.User != "65532:65532" ||
		!slices.Equal(config.Config.Entrypoint, []string{"/" + programs[len(programs)-1]}) || manifest.MediaType != types.OCIManifestSchema1 {
		t.Errorf("%s: config %+v", arch, config)
	}
	layers, err := img.Layers()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, layer := range layers {
		content, err := layer.Uncompressed()
		if err != nil {
			t.Fatal(err)
		}
		for name, data := range untar(t, content) {
			got[name] = string(data)
		}
	}
	for _, name := range []string{"licenses/LICENSE", "licenses/THIRD-PARTY-LICENSES"} {
		if got[name] == "" {
			t.Errorf("%s: no /%s", arch, name)
		}
		delete(got, name)
	}
	want := map[string]string{}
	for _, name := range programs {
		want[name] = name + " for linux/" + arch
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// checkLegacy reads the tar as Docker's older store does, by its manifest.json.
func checkLegacy(t *testing.T, path string, want v1.Image, as string) {
	t.Helper()
	tag, err := name.NewTag(as)
	if err != nil {
		t.Fatal(err)
	}
	img, err := tarball.ImageFromPath(path, &tag)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Image(img); err != nil {
		t.Error(err)
	}
	got, err := img.ConfigName()
	if err != nil {
		t.Fatal(err)
	}
	if config, err := want.ConfigName(); err != nil || got != config {
		t.Errorf("%s is the image %s, want %s (%v)", tag, got, config, err)
	}
}

func TestTooLarge(t *testing.T) {
	t.Parallel()
	r := newRelease(t)
	r.limit = 100
	if err := r.writeImage(io.Discard, r.images[0]); !errors.Is(err, errTooLarge) {
		t.Errorf("err = %v", err)
	}
}

// The chart asks for the image under the name that it is built with.
func TestTheChartAsksForTheImage(t *testing.T) {
	t.Parallel()
	var values struct {
		Image              struct{ Repository string }
		Registry           struct{ Image struct{ Repository string } }
		PodSecurityContext struct{ RunAsUser, RunAsGroup int }
	}
	data, err := os.ReadFile("../../../charts/agent/values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(data, &values); err != nil {
		t.Fatal(err)
	}
	for i, asked := range []string{values.Image.Repository, values.Registry.Image.Repository} {
		if built := images()[i].repository; "docker.io/"+strings.TrimPrefix(asked, "docker.io/") != built {
			t.Errorf("the chart asks for %s, the image is built as %s", asked, built)
		}
	}
	if u := values.PodSecurityContext; u.RunAsUser != user || u.RunAsGroup != user {
		t.Errorf("podSecurityContext runs as %d:%d, the image is for %d", u.RunAsUser, u.RunAsGroup, user)
	}
}

func manifests(t *testing.T, index v1.ImageIndex) []v1.Descriptor {
	t.Helper()
	m, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	return m.Manifests
}
