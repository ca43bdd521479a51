// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package standalone

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/roster-mesh/roster/e2e/harness"
)

// run runs another command of the program and returns what it said.
func run(t *testing.T, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	said, err := exec.CommandContext(ctx, program(t), args...).CombinedOutput()
	return strings.TrimSpace(string(said)), err
}

func mustRun(t *testing.T, args ...string) {
	t.Helper()
	if said, err := run(t, args...); err != nil {
		t.Fatalf("roster-apiserver %s: %v: %s", strings.Join(args, " "), err, said)
	}
}

// address is one that nobody uses.
func address(t *testing.T) string {
	t.Helper()
	a, err := harness.FreeAddress(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// create creates a ConfigMap in namespace default, and returns how long that took. A write that begins while the servers
// have no leader is lost, and hangs: it is tried again each second.
func create(t *testing.T, client kubernetes.Interface, name string) time.Duration {
	t.Helper()
	took, err := harness.Wait(t.Context(), "ConfigMap "+name+" is created", within, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}
		_, err := client.CoreV1().ConfigMaps("default").Create(ctx, object, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			return nil // an answer was lost
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return took
}

// has says whether the ConfigMap is there.
func has(t *testing.T, client kubernetes.Interface, name string) bool {
	t.Helper()
	_, err := client.CoreV1().ConfigMaps("default").Get(t.Context(), name, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
	return err == nil
}

// bundle makes another server of a cluster possible.
func bundle(t *testing.T, s *server, peer string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "bundle")
	mustRun(t, "add", "--data-dir", s.dir, "--peer", peer, file)
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Fatal(info, err)
	}
	return file
}

// threeServers are of one cluster. The second one is added by the first, the third by the second.
func threeServers(t *testing.T) (servers [3]*server, peers [3]string) {
	t.Helper()
	for i := range peers {
		peers[i] = address(t)
		dir := filepath.Join(t.TempDir(), fmt.Sprint("d", i))
		if i == 0 {
			servers[i] = start(t, dir, "--cluster-name", "alpha", "--peer-listen", peers[i])
			continue
		}
		servers[i] = start(t, dir, "--bundle", bundle(t, servers[i-1], peers[i]))
	}
	return servers, peers
}

// TestThreeServers: three servers have one state; without any one of them the others go on, with the controllers; it
// catches up when it is back; and one that has lost its disk is replaced.
func TestThreeServers(t *testing.T) {
	t.Parallel()
	servers, peers := threeServers(t)
	for i, s := range servers {
		create(t, s.kubernetes(t), fmt.Sprint("of-", i))
	}
	for _, s := range servers {
		for i := range servers {
			if !has(t, s.kubernetes(t), fmt.Sprint("of-", i)) {
				t.Errorf("%s lacks what was created at another server", s.dir)
			}
		}
	}
	for i, s := range servers {
		if err := s.Signal(syscall.SIGKILL, within); err != nil {
			t.Fatal(err)
		}
		other := servers[(i+1)%3].kubernetes(t)
		t.Logf("after the end of server %d a write took %v", i, create(t, other, fmt.Sprint("without-", i)))
		deleteNamespace(t, other, fmt.Sprint("ns-", i))
		servers[i] = start(t, s.dir) // neither its flags nor its bundle are needed again
		if !has(t, servers[i].kubernetes(t), fmt.Sprint("without-", i)) {
			t.Errorf("server %d did not catch up", i)
		}
	}
	lostDisk(t, servers, peers)
}

// deleteNamespace creates a namespace and deletes it, which takes a controller.
func deleteNamespace(t *testing.T, client kubernetes.Interface, name string) {
	t.Helper()
	namespaces := client.CoreV1().Namespaces()
	eventually(t, "namespace "+name+" is created", func(ctx context.Context) error {
		_, err := namespaces.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
		return err
	})
	eventually(t, "namespace "+name+" is deleted", func(ctx context.Context) error {
		err := namespaces.Delete(ctx, name, metav1.DeleteOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(err, errors.New("it is there"))
	})
}

func lostDisk(t *testing.T, servers [3]*server, peers [3]string) {
	t.Helper()
	lost := servers[2]
	if err := lost.Signal(syscall.SIGKILL, within); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(lost.dir); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "bundle")
	if said, err := run(t, "add", "--data-dir", servers[0].dir, "--peer", peers[2], file); err == nil || !strings.Contains(said, "remove-member") {
		t.Errorf("the address of a server that is not removed: %v, %s", err, said)
	}
	mustRun(t, "remove-member", "--data-dir", servers[0].dir, peers[2])
	create(t, servers[1].kubernetes(t), "while-two")
	file = bundle(t, servers[0], peers[2])
	again := start(t, lost.dir, "--bundle", file)
	for _, name := range []string{"of-0", "without-2", "while-two"} {
		if !has(t, again.kubernetes(t), name) {
			t.Errorf("the new server lacks %s", name)
		}
	}
	if err := servers[0].Signal(syscall.SIGKILL, within); err != nil {
		t.Fatal(err)
	}
	create(t, again.kubernetes(t), "two-of-three")

	if code, said := refused(t, t.TempDir(), "--listen", "127.0.0.1:0", "--bundle", file); code != 1 || !strings.Contains(said, "--bundle "+file) {
		t.Errorf("a bundle that was used: code %d, %s", code, said)
	}
}

// TestRemovedServer: a server that is removed ends by itself and says why, and does not start again.
func TestRemovedServer(t *testing.T) {
	t.Parallel()
	peers := []string{address(t), address(t)}
	first := start(t, filepath.Join(t.TempDir(), "d"), "--peer-listen", peers[0])
	file := bundle(t, first, peers[1])
	second := start(t, filepath.Join(t.TempDir(), "d"), "--bundle", file)
	eventually(t, "the removal", func(context.Context) error { // etcd wants both to have been up for a while
		said, err := run(t, "remove-member", "--data-dir", first.dir, peers[1])
		if err != nil {
			return errors.New(said)
		}
		return nil
	})
	select {
	case <-second.Done():
	case <-time.After(within):
		t.Fatal("the server that was removed goes on")
	}
	if !bytes.Contains(second.stderr.Bytes(), []byte("was removed from its cluster")) {
		t.Errorf("it said:\n%s", second.stderr)
	}
	create(t, first.kubernetes(t), "alone")
	if code, said := refused(t, second.dir, "--listen", "127.0.0.1:0"); code != 1 || !strings.Contains(said, "was removed from its cluster") {
		t.Errorf("a server that was removed is started: code %d, %s", code, said)
	}
}

// TestBadBundle: one line that names the bundle or the flag, and no directory is made.
func TestBadBundle(t *testing.T) {
	t.Parallel()
	alone := start(t, filepath.Join(t.TempDir(), "d"), "--cluster-name", "alpha")
	file := filepath.Join(t.TempDir(), "file")
	if said, err := run(t, "add", "--data-dir", alone.dir, "--peer", "192.0.2.1:7380", file); err == nil || !strings.Contains(said, "--peer-listen") {
		t.Errorf("a server without an address for others: %v, %s", err, said)
	}
	if err := alone.Signal(syscall.SIGTERM, within); err != nil {
		t.Fatal(err)
	}
	if said, err := run(t, "add", "--data-dir", alone.dir, "--peer", "192.0.2.1:7380", file); err == nil || !strings.Contains(said, "no server runs on it") {
		t.Errorf("a server that does not run: %v, %s", err, said)
	}
	peer := address(t)
	first := start(t, alone.dir, "--peer-listen", peer)
	whole := bundle(t, first, address(t))
	data, err := os.ReadFile(whole)
	if err != nil {
		t.Fatal(err)
	}
	link := whole + ".link"
	if err := os.Symlink("elsewhere", link); err != nil {
		t.Fatal(err)
	}
	if said, err := run(t, "add", "--data-dir", alone.dir, "--peer", "192.0.2.1:7380", link); err == nil || !strings.Contains(said, link+" is there and no regular file") {
		t.Errorf("a link, as /dev/stdout is one: %v, %s", err, said)
	}
	cut := filepath.Join(t.TempDir(), "cut")
	if err := os.WriteFile(cut, data[:len(data)-10], 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		flags []string
		code  int
		want  string
	}{
		{[]string{"--bundle", cut}, 1, "--bundle " + cut + ": it is cut off or damaged"},
		{[]string{"--bundle", program(t)}, 1, "it is not a bundle of roster-apiserver"},
		{[]string{"--bundle", cut + "2"}, 1, "no such file"},
		{[]string{"--bundle", whole, "--cluster-name", "beta"}, 1, "it is for cluster alpha, not beta"},
		{[]string{"--bundle", whole, "--peer-listen", peer}, 2, "leave out --peer-listen"},
		{[]string{"--bundle", whole, "--etcd-servers", "http://127.0.0.1:1"}, 2, "do not go with --etcd-servers"},
		{[]string{"--peer-listen", "0.0.0.0:7380"}, 2, "names no host"},
		{[]string{"--peer-listen", "%zz:7380"}, 2, "names no host"},
	} {
		dir := filepath.Join(t.TempDir(), "new")
		code, said := refused(t, dir, append(c.flags, "--listen", "127.0.0.1:0")...)
		if code != c.code || !strings.Contains(said, c.want) {
			t.Errorf("%v: code %d, %q; want code %d and %q", c.flags, code, said, c.code, c.want)
		}
		if _, err := os.Stat(dir); err == nil {
			t.Errorf("%v: a directory was made", c.flags)
		}
	}
	if code, said := refused(t, filepath.Join(t.TempDir(), "new"), "--listen", "127.0.0.1:0", "--peer-listen", peer); code != 1 ||
		!strings.Contains(said, "--peer-listen "+peer+": address already in use") {
		t.Errorf("a port in use: code %d, %q", code, said)
	}
	if code, said := refused(t, first.dir, "--listen", "127.0.0.1:0", "--bundle", whole); code != 1 || !strings.Contains(said, "another process uses") {
		t.Errorf("a directory in use: code %d, %q", code, said)
	}
}
