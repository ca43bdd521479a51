// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package standalone

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/roster-mesh/roster/e2e/harness"
)

// startEtcd starts an etcd of its own process, and returns its URL.
func startEtcd(t *testing.T) string {
	t.Helper()
	bin, err := harness.FindBinaries()
	if err != nil {
		t.Fatal(err)
	}
	url, peer := "http://"+address(t), "http://"+address(t)
	cmd := exec.Command(filepath.Join(bin.Root, "e2e", "testbed", "bin", "etcd"), "--data-dir", filepath.Join(t.TempDir(), "etcd"),
		"--listen-client-urls", url, "--advertise-client-urls", url, "--listen-peer-urls", peer,
		"--initial-advertise-peer-urls", peer, "--initial-cluster", "default="+peer, "--log-level", "error")
	process, err := harness.StartProcess(cmd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = process.Signal(syscall.SIGKILL, within) })
	return url
}

// TestEtcdElsewhere: the data of a cluster are in an etcd of somebody else's. A server with a directory of its own would have
// other keys, and is refused; one with a copy of the directory is another server of the cluster, and of both one runs the
// controllers.
func TestEtcdElsewhere(t *testing.T) {
	t.Parallel()
	etcd := startEtcd(t)
	first := start(t, filepath.Join(t.TempDir(), "d"), "--cluster-name", "alpha", "--etcd-servers", etcd)
	client := first.kubernetes(t)
	create(t, client, "kept")
	deleteNamespace(t, client, "before")

	code, said := refused(t, filepath.Join(t.TempDir(), "d"), "--listen", "127.0.0.1:0", "--etcd-servers", etcd)
	if code != 1 || !strings.Contains(said, "--etcd-servers "+etcd) || !strings.Contains(said, "another cluster") {
		t.Errorf("a server with other keys: code %d, %q", code, said)
	}

	copied := filepath.Join(t.TempDir(), "d")
	if err := os.CopyFS(copied, os.DirFS(first.dir)); err != nil {
		t.Fatal(err)
	}
	second := start(t, copied, "--cluster-name", "alpha", "--etcd-servers", etcd)
	if !has(t, second.kubernetes(t), "kept") {
		t.Error("the second server lacks what the first one has written")
	}
	token, err := client.CoreV1().ServiceAccounts("default").CreateToken(t.Context(), "default", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := asToken(t, second, token.Status.Token).AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{}); err != nil {
		t.Errorf("a token of the first server at the second: %v", err)
	}
	if err := first.Signal(syscall.SIGKILL, within); err != nil {
		t.Fatal(err)
	}
	deleteNamespace(t, second.kubernetes(t), "after") // once the lease of the first one has ended
	first = start(t, first.dir, "--etcd-servers", etcd)
	eventually(t, "the first server has what the second one has written", func(ctx context.Context) error {
		_, err := first.kubernetes(t).CoreV1().Namespaces().Get(ctx, "default", metav1.GetOptions{})
		return err
	})
}

// asToken is a client with a ServiceAccount's token and nothing else.
func asToken(t *testing.T, s *server, token string) kubernetes.Interface {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(s.dir, "admin.kubeconfig"))
	if err != nil {
		t.Fatal(err)
	}
	config = rest.AnonymousClientConfig(config)
	config.BearerToken = token
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}
