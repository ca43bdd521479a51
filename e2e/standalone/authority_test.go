// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package standalone

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/roster-mesh/roster/kube/pki"
)

// writeAuthority writes a new CA, as a Secret that has it is mounted.
func writeAuthority(t *testing.T) (dir string, ca pki.Pair) {
	t.Helper()
	ca, err := pki.New(pki.Authority(pki.AuthorityName), nil, time.Now(), pki.AuthorityLife)
	if err != nil {
		t.Fatal(err)
	}
	key, err := ca.KeyPEM()
	if err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	for name, data := range map[string][]byte{"tls.crt": ca.CertPEM(), "tls.key": key} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o400); err != nil {
			t.Fatal(err)
		}
	}
	return dir, ca
}

// TestAuthorityThatIsBrought: a server takes the CA of --ca, so that somebody who has it can write an administrator's
// certificate before the server has ever run. It starts again with it and without, and not with another one. Kubelets may
// ask without a certificate whether it is ready.
func TestAuthorityThatIsBrought(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "d")
	from, ca := writeAuthority(t)
	s := start(t, dir, "--ca", from, "--cluster-name", "alpha")

	mine, err := pki.New(pki.Client(pki.AdminUser, pki.AdminGroup), &ca, time.Now(), pki.LeafLife)
	if err != nil {
		t.Fatal(err)
	}
	key, err := mine.KeyPEM()
	if err != nil {
		t.Fatal(err)
	}
	written, err := clientcmd.BuildConfigFromFlags("", filepath.Join(dir, "admin.kubeconfig"))
	if err != nil {
		t.Fatal(err)
	}
	admin := &rest.Config{Host: written.Host, TLSClientConfig: rest.TLSClientConfig{CAData: ca.CertPEM(), CertData: mine.CertPEM(), KeyData: key}}
	client, err := kubernetes.NewForConfig(admin)
	if err != nil {
		t.Fatal(err)
	}
	who, err := client.AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil || who.Status.UserInfo.Username != pki.AdminUser {
		t.Errorf("a certificate of the CA that was brought is of %v, %v", who, err)
	}
	system, err := client.CoreV1().Namespaces().Get(t.Context(), metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/readyz", "/livez"} {
		if _, err := s.as(t, "").Discovery().RESTClient().Get().AbsPath(path).DoRaw(t.Context()); err != nil {
			t.Errorf("nobody in particular asks for %s: %v", path, err)
		}
	}

	if err := s.Signal(syscall.SIGTERM, within); err != nil {
		t.Fatal(err)
	}
	other, _ := writeAuthority(t)
	code, said := refused(t, dir, "--listen", "127.0.0.1:0", "--ca", other)
	if code != 1 || !strings.Contains(said, "--ca "+other+": it is not the CA that this server and its clients have") {
		t.Errorf("with another CA: code %d, %q", code, said)
	}
	code, said = refused(t, filepath.Join(t.TempDir(), "new"), "--listen", "127.0.0.1:0", "--ca", t.TempDir())
	if code != 1 || !strings.Contains(said, "--ca ") || !strings.Contains(said, "tls.crt: no such file or directory") {
		t.Errorf("with an empty directory: code %d, %q", code, said)
	}
	for _, flags := range [][]string{{"--ca", from}, nil} {
		s = start(t, dir, flags...)
		again, err := s.kubernetes(t).CoreV1().Namespaces().Get(t.Context(), metav1.NamespaceSystem, metav1.GetOptions{})
		if err != nil || again.UID != system.UID {
			t.Errorf("with flags %v it is another cluster: %v", flags, err)
		}
		if err := s.Signal(syscall.SIGTERM, within); err != nil {
			t.Fatal(err)
		}
	}
}
