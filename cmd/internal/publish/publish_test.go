// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

const (
	version = "0.1.0" // that of the chart
	commit  = "0123456789abcdef0123456789abcdef01234567"
	helm    = "../../../e2e/testbed/bin/helm"
)

// serve starts a registry, and returns what its names begin with.
func serve(t *testing.T, options ...registry.Option) string {
	t.Helper()
	s := httptest.NewServer(registry.New(append(options, registry.Logger(log.New(io.Discard, "", 0)))...))
	t.Cleanup(s.Close)
	return strings.TrimPrefix(s.URL, "http://") + "/team"
}

// pack writes what make release writes: images of two platforms, and the chart of this repository.
func pack(t *testing.T, dist string) (agent v1.Hash) {
	t.Helper()
	for _, file := range []string{"roster-agent-" + version, "roster-apiserver-" + version} {
		index, err := random.Index(1<<10, 2, 2)
		if err != nil {
			t.Fatal(err)
		}
		if agent == (v1.Hash{}) {
			if agent, err = index.Digest(); err != nil {
				t.Fatal(err)
			}
		}
		dir := t.TempDir()
		at, err := layout.Write(dir, empty.Index)
		if err == nil {
			err = at.AppendIndex(index)
		}
		if err = errors.Join(err, os.WriteFile(filepath.Join(dist, file+".tar"), tarOf(t, dir), 0o600),
			os.WriteFile(filepath.Join(dist, file+".spdx.json"), []byte(`{"name":"`+file+`"}`), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := exec.CommandContext(t.Context(), helm, "package", "../../../charts/agent", "-d", dist).CombinedOutput(); err != nil {
		t.Fatalf("%v (run make testbed first)\n%s", err, out)
	}
	return agent
}

func tarOf(t *testing.T, dir string) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	if err := errors.Join(filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		rel, relErr := filepath.Rel(dir, path)
		if err := errors.Join(err, relErr); err != nil || rel == "." {
			return err
		}
		if d.IsDir() {
			return w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: rel + "/", Mode: 0o755})
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if err := w.WriteHeader(&tar.Header{Name: rel, Mode: 0o644, Size: int64(len(data))}); err != nil {
			return err
		}
		_, err = w.Write(data)
		return err
	}), w.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func publish(t *testing.T, registry, dist string, more ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	err := run(t.Context(), append([]string{"-registry", registry, "-version", version, "-commit", commit, "-dist", dist}, more...), &out)
	return out.String(), err
}

// digestOf is what a registry has under a name.
func digestOf(t *testing.T, ref string) name.Digest {
	t.Helper()
	tag, err := name.NewTag(ref)
	if err != nil {
		t.Fatal(err)
	}
	there, err := remote.Head(tag)
	if err != nil {
		t.Fatal(err)
	}
	return tag.Digest(there.Digest.String())
}

// attached are the artifacts that refer to something, by their types.
func attached(t *testing.T, to name.Digest) map[string]string {
	t.Helper()
	index, err := remote.Referrers(to)
	if err != nil {
		t.Fatal(err)
	}
	all, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, d := range all.Manifests {
		img, err := remote.Image(to.Digest(d.Digest.String()))
		if err != nil {
			t.Fatal(err)
		}
		m, err := img.Manifest()
		if err != nil {
			t.Fatal(err)
		}
		if m.Subject == nil || m.Subject.Digest.String() != to.DigestStr() {
			t.Errorf("%s is about %v", d.Digest, m.Subject)
		}
		layers, err := img.Layers()
		if err != nil {
			t.Fatal(err)
		}
		content, err := layers[0].Compressed()
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(content)
		if err = errors.Join(err, content.Close()); err != nil {
			t.Fatal(err)
		}
		out[m.ArtifactType] = string(data)
	}
	return out
}

// Images have the digest that they have in their tar, and beside them their SBOM and their provenance; helm pulls the chart as it was
// packed. Again, nothing changes. It is so with registries that know what refers to what, and with those that do not.
func TestPublish(t *testing.T) {
	for kind, options := range map[string][]registry.Option{"referrers": {registry.WithReferrersSupport(true)}, "no referrers": nil} {
		t.Run(kind, func(t *testing.T) {
			at, dist := serve(t, options...), t.TempDir()
			want := pack(t, dist)
			for range 2 {
				out, err := publish(t, at, dist)
				if err != nil || !strings.Contains(out, "helm install cluster-registry-controller oci://"+at+"/charts/agent --version "+version) ||
					!strings.Contains(out, "image.repository="+at+"/agent,registry.image.repository="+at+"/roster-apiserver") {
					t.Fatalf("%v\n%s", err, out)
				}
				image := digestOf(t, at+"/agent:"+version)
				if image.DigestStr() != want.String() {
					t.Errorf("the image is %s, and in the tar %s", image.DigestStr(), want)
				}
				with := attached(t, image)
				if len(with) != 2 || with[typeSPDX] != `{"name":"roster-agent-`+version+`"}` {
					t.Errorf("attached: %v", with)
				}
				checkProvenance(t, with[typeInToto], image)
				chart := digestOf(t, at+"/charts/agent:"+version)
				checkProvenance(t, attached(t, chart)[typeInToto], chart)
			}
			pulled := t.TempDir()
			if out, err := exec.CommandContext(t.Context(), helm, "pull", "oci://"+at+"/charts/agent", "--version", version, "--plain-http", "-d", pulled).CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			before, err := os.ReadFile(filepath.Join(dist, "agent-"+version+".tgz"))
			after, pullErr := os.ReadFile(filepath.Join(pulled, "agent-"+version+".tgz"))
			if err != nil || pullErr != nil || !bytes.Equal(before, after) {
				t.Errorf("helm pulls another chart: %v, %v", err, pullErr)
			}
		})
	}
}

func checkProvenance(t *testing.T, text string, of name.Digest) {
	t.Helper()
	var s struct {
		Subject   []struct{ Digest map[string]string }
		Predicate struct {
			BuildDefinition struct {
				ResolvedDependencies []struct{ Digest map[string]string }
			}
		}
	}
	if err := json.Unmarshal([]byte(text), &s); err != nil || len(s.Subject) != 1 || "sha256:"+s.Subject[0].Digest["sha256"] != of.DigestStr() ||
		s.Predicate.BuildDefinition.ResolvedDependencies[0].Digest["gitCommit"] != commit {
		t.Errorf("the provenance of %s: %v\n%s", of, err, text)
	}
}

// A version that is published stays as it is.
func TestVersionIsNotReplaced(t *testing.T) {
	at, dist := serve(t), t.TempDir()
	pack(t, dist)
	if out, err := publish(t, at, dist); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	before := digestOf(t, at+"/agent:"+version)
	pack(t, dist)
	if _, err := publish(t, at, dist); err == nil || !strings.Contains(err.Error(), "a version that is published is never replaced") {
		t.Errorf("another image of the same version: %v", err)
	}
	if after := digestOf(t, at+"/agent:"+version); after != before {
		t.Errorf("%s was replaced by %s", before, after)
	}
}

// What cannot be published is refused before anything is pushed.
func TestRefuses(t *testing.T) {
	at, dist := serve(t), t.TempDir()
	pack(t, dist)
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"-version", version, "-commit", commit}, "make publish REGISTRY="},
		{[]string{"-registry", at, "-version", version, "-commit", commit + "-dirty"}, "from a commit without changes"},
		{[]string{"-registry", at, "-version", version, "-commit", "unknown"}, "from a commit without changes"},
		{[]string{"-registry", at, "-version", version, "-commit", commit, "-sign-with", "no-such-signer sign"}, "SIGN_WITH"},
		{[]string{"-registry", "A B", "-version", version, "-commit", commit}, "REGISTRY"},
		{[]string{"-registry", at, "-version", "9.9.9", "-commit", commit}, "roster-agent-9.9.9.tar"},
	} {
		if err := run(t.Context(), append(test.args, "-dist", dist), io.Discard); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%v: %v, want %q", test.args, err, test.want)
		}
	}
	tag, err := name.NewTag(at + "/agent:" + version)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := remote.Head(tag); !isNotFound(err) {
		t.Errorf("something was pushed: %v", err)
	}
}
