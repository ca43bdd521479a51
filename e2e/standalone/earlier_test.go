// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package standalone

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestEarlierData: a data directory that an earlier version has left, killed after writes, is opened with all that is in
// it. testdata/README.md says how it was made.
func TestEarlierData(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "d")
	unpack(t, filepath.Join("testdata", "format-1.tar.gz"), filepath.Dir(dir))
	record := filepath.Join(dir, "server.json")
	// An earlier patch version is what a server most often finds.
	older := []byte(`{"format":1,"kubernetes":"v1.37.0+roster","name":"previous"}`)
	if err := os.WriteFile(record, older, 0o600); err != nil {
		t.Fatal(err)
	}
	s := start(t, dir, "--cluster-name", "previous")
	client := s.kubernetes(t)
	// Its CRDs are older than those that this version may replace, which is no reason to leave out the rest, or not to serve.
	if _, err := client.RbacV1().ClusterRoles().Get(t.Context(), "cluster-registry-api-caller", metav1.GetOptions{}); err != nil {
		t.Error("an object that only this version brings: ", err)
	}

	settings, err := client.CoreV1().ConfigMaps("team").Get(t.Context(), "settings", metav1.GetOptions{})
	if err != nil || settings.Data["key"] != "kept" || settings.Labels["patched"] != "yes" ||
		settings.UID != "825fe016-4742-4f3e-8233-f1d9d616f693" || settings.ResourceVersion != "250" {
		t.Errorf("the ConfigMap: %v, %v", settings, err)
	}
	password, err := client.CoreV1().Secrets("team").Get(t.Context(), "password", metav1.GetOptions{})
	if err != nil || string(password.Data["key"]) != "kept-secret" {
		t.Errorf("the Secret: %v, %v", password, err)
	}
	if _, err := client.RbacV1().Roles("team").Get(t.Context(), "reader", metav1.GetOptions{}); err != nil {
		t.Error("the Role: ", err)
	}
	feature, err := client.Discovery().RESTClient().Get().AbsPath("/apis/clusterregistry.k8s.cisco.com/v1alpha1/clusterfeatures/feature").DoRaw(t.Context())
	if err != nil || !bytes.Contains(feature, []byte(`"featureName":"kept"`)) {
		t.Errorf("the object of a CRD: %s, %v", feature, err)
	}
	create(t, client, "new")
	if now := version(t, client); now <= 250 {
		t.Errorf("the resourceVersion is %d", now)
	}

	release, err := client.Discovery().ServerVersion()
	if err != nil {
		t.Fatal(err)
	}
	now, err := os.ReadFile(record)
	if err != nil || !strings.Contains(string(now), `"kubernetes":"`+release.GitVersion+`"`) {
		t.Errorf("server.json is %s after a start of %s, %v", now, release.GitVersion, err)
	}
}

// TestNewerObjects: a server that starts again beside one of a newer version leaves what that one has applied.
func TestNewerObjects(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "d")
	const role, binding = "cluster-registry-api-caller", "cluster-registry-controller-consent"
	for _, test := range []struct {
		label string
		stays bool
	}{{"99.0.0", true}, {"0.0.1", false}, {"somebody-wrote-this", false}} {
		s := start(t, dir)
		client := s.kubernetes(t)
		verbs := []byte(`[{"op":"replace","path":"/rules/0/verbs","value":["get"]}]`)
		if _, err := client.RbacV1().ClusterRoles().Patch(t.Context(), role, types.JSONPatchType, verbs, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		label := fmt.Appendf(nil, `{"metadata":{"labels":{"app.kubernetes.io/version":%q}}}`, test.label)
		bindings := client.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings()
		if _, err := bindings.Patch(t.Context(), binding, types.MergePatchType, label, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		_ = s.Signal(syscall.SIGTERM, within)
		s = start(t, dir)
		got, err := s.kubernetes(t).RbacV1().ClusterRoles().Get(t.Context(), role, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if stays := len(got.Rules[0].Verbs) == 1; stays != test.stays {
			t.Errorf("after version %s the role has the verbs %v", test.label, got.Rules[0].Verbs)
		}
		_ = s.Signal(syscall.SIGTERM, within)
		if said := strings.Contains(s.stderr.String(), "a newer version of roster-apiserver has applied its objects: "+test.label); said != test.stays {
			t.Errorf("after version %s it said:\n%s", test.label, s.stderr)
		}
	}
}

// unpack unpacks an archive into a directory. What etcd has reserved and not used takes no room.
func unpack(t *testing.T, archive, dir string) {
	t.Helper()
	file, err := os.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	plain, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	for files := tar.NewReader(plain); ; {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, filepath.FromSlash(header.Name))
		if header.Typeflag == tar.TypeDir {
			err = os.Mkdir(path, 0o700)
		} else {
			err = writeSparse(path, files)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func writeSparse(path string, from io.Reader) error {
	data, err := io.ReadAll(from)
	if err != nil {
		return err
	}
	if err := os.WriteFile(path, bytes.TrimRight(data, "\x00"), 0o600); err != nil {
		return err
	}
	return os.Truncate(path, int64(len(data)))
}
