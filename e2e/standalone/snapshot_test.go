// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package standalone

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// TestSnapshot: a snapshot of a server that runs, and one of a server that was killed, become servers with all that was
// acknowledged before, with the same keys, and with resourceVersions that no server gets to by being written to.
func TestSnapshot(t *testing.T) {
	t.Parallel()
	temp := t.TempDir()
	s := start(t, filepath.Join(temp, "d"), "--cluster-name", "alpha")
	client := s.kubernetes(t)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "secret"}, StringData: map[string]string{"key": "value"}}
	if _, err := client.CoreV1().Secrets("default").Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	create(t, client, "early")
	token := token(t, client)
	online, killed := filepath.Join(temp, "online.snapshot"), filepath.Join(temp, "killed.snapshot")
	mustRun(t, "snapshot", "save", "--data-dir", s.dir, online)
	create(t, client, "late")
	last := version(t, client)
	if err := s.Signal(syscall.SIGKILL, within); err != nil {
		t.Fatal(err)
	}
	mustRun(t, "snapshot", "save", "--data-dir", s.dir, killed)
	for file, late := range map[string]bool{online: false, killed: true} {
		if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
			t.Error(info, err)
		}
		dir := file + ".d"
		mustRun(t, "snapshot", "restore", "--data-dir", dir, file)
		restored := start(t, dir, "--cluster-name", "alpha").kubernetes(t)
		if !has(t, restored, "early") || has(t, restored, "late") != late {
			t.Errorf("%s: wrong objects", file)
		}
		got, err := restored.CoreV1().Secrets("default").Get(t.Context(), "secret", metav1.GetOptions{})
		if err != nil || string(got.Data["key"]) != "value" {
			t.Errorf("%s: the Secret: %v", file, err)
		}
		review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}
		if review, err = restored.AuthenticationV1().TokenReviews().Create(t.Context(), review, metav1.CreateOptions{}); err != nil || !review.Status.Authenticated {
			t.Errorf("%s: a token of before: %v, %v", file, review.Status, err)
		}
		if is := version(t, restored); is < last+1_000_000_000 {
			t.Errorf("%s: resourceVersion %d after %d", file, is, last)
		}
	}
	// The server goes on where it was.
	if !has(t, start(t, s.dir).kubernetes(t), "late") {
		t.Error("a save has changed what it saved")
	}
	badSnapshots(t, online, s.dir)
}

func badSnapshots(t *testing.T, file, used string) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	cut := filepath.Join(t.TempDir(), "cut")
	if err := os.WriteFile(cut, data[:len(data)/2], 0o600); err != nil {
		t.Fatal(err)
	}
	fresh := filepath.Join(t.TempDir(), "fresh")
	for _, c := range []struct {
		dir, file, want string
	}{
		{fresh, cut, cut + ": it is cut off or damaged"},
		{fresh, program(t), "it is not a snapshot that roster-apiserver has saved"},
		{fresh, cut + "2", "no such file"},
		{used, file, "--data-dir " + used + ": it is not empty"},
	} {
		said, err := run(t, "snapshot", "restore", "--data-dir", c.dir, c.file)
		if err == nil || !strings.Contains(said, c.want) || strings.Contains(said, "\n") {
			t.Errorf("%s into %s: %v, %q, want %q", c.file, c.dir, err, said, c.want)
		}
		if _, err := os.Stat(fresh); err == nil {
			t.Errorf("%s: a directory was made", c.file)
		}
	}
	if said, err := run(t, "snapshot", "save", "--data-dir", fresh, cut); err == nil || !strings.Contains(said, "it is not the data directory of a server") {
		t.Errorf("a save of nothing: %v, %q", err, said)
	}
}

// token is one of a new ServiceAccount.
func token(t *testing.T, client kubernetes.Interface) string {
	t.Helper()
	accounts := client.CoreV1().ServiceAccounts("default")
	if _, err := accounts.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "robot"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	r, err := accounts.CreateToken(t.Context(), "robot", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return r.Status.Token
}

// version is the resourceVersion that the server is at.
func version(t *testing.T, client kubernetes.Interface) int64 {
	t.Helper()
	list, err := client.CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.ParseInt(list.ResourceVersion, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
