// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package standalone tests roster-apiserver as a program: its first start, what it says of bad input, and that a crash
// loses nothing.
package standalone

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/roster-mesh/roster/e2e/harness"
)

// within bounds a start on a busy machine.
const within = 2 * time.Minute

// atOnce is how many tests run at a time: they wait for disks, elections and leases, and a server takes 200 MiB of memory.
const atOnce = "4"

func TestMain(m *testing.M) {
	if _, err := harness.InNetworkNamespace(); err != nil {
		fmt.Fprintln(os.Stderr, "e2e/standalone:", err)
		os.Exit(1)
	}
	if err := flag.Set("test.parallel", atOnce); err != nil { // a -parallel of the command line, which Run reads, counts
		fmt.Fprintln(os.Stderr, "e2e/standalone:", err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// server is a running roster-apiserver.
type server struct {
	*harness.Process

	dir    string
	stderr *bytes.Buffer // read it when the process has ended
}

// program returns the path of the binary.
func program(t *testing.T) string {
	t.Helper()
	bin, err := harness.FindBinaries()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(bin.Root, "bin", "roster-apiserver")
	if _, err := os.Stat(path); err != nil {
		t.Fatal("run `make apiserver` first:", err)
	}
	return path
}

func command(t *testing.T, dir string, flags ...string) *exec.Cmd {
	t.Helper()
	return exec.Command(program(t), append([]string{"standalone", "--data-dir", dir, "--listen", "127.0.0.1:0"}, flags...)...)
}

// start returns when the server is ready.
func start(t *testing.T, dir string, flags ...string) *server {
	t.Helper()
	cmd := command(t, dir, flags...)
	s := &server{dir: dir, stderr: &bytes.Buffer{}}
	cmd.Stderr = s.stderr
	stdout, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout = writer
	s.Process, err = harness.StartProcess(cmd)
	_ = writer.Close()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Signal(syscall.SIGKILL, within) })
	ready := make(chan bool, 1)
	go func() {
		lines := bufio.NewScanner(stdout)
		ready <- lines.Scan() && lines.Text() == "ready"
		_ = stdout.Close()
	}()
	select {
	case ok := <-ready:
		if !ok {
			<-s.Done()
			t.Fatalf("the server ended: %s", s.stderr)
		}
	case <-time.After(within):
		t.Fatal("the server is not ready")
	}
	return s
}

// kubernetes returns a client that may do everything.
func (s *server) kubernetes(t *testing.T) *kubernetes.Clientset {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(s.dir, "admin.kubeconfig"))
	if err != nil {
		t.Fatal(err)
	}
	config.QPS = -1
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// refused runs the program, which must end by itself, and returns its exit code and what it said.
func refused(t *testing.T, dir string, flags ...string) (code int, said string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	cmd := exec.CommandContext(ctx, program(t), append([]string{"standalone", "--data-dir", dir}, flags...)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	_ = cmd.Run() // its code is looked at
	lines := strings.Split(strings.TrimSpace(stderr.String()), "\n")
	return cmd.ProcessState.ExitCode(), lines[len(lines)-1]
}

// TestFirstStart: an empty directory becomes a cluster that has what the chart brings to others.
func TestFirstStart(t *testing.T) {
	t.Parallel()
	s := start(t, filepath.Join(t.TempDir(), "d"), "--cluster-name", "alpha")
	ready := time.Now()
	client := s.kubernetes(t)
	if since := established(t, client); ready.Sub(since) < 2*time.Second {
		t.Errorf("the CRD of Clusters is established since %s, and the server is ready at %s: who creates the first has to wait", since, ready)
	}
	version, err := client.Discovery().ServerVersion()
	if err != nil || !strings.HasSuffix(version.GitVersion, "+roster") {
		t.Errorf("its version is %v, %v", version, err)
	}
	namespaces, err := client.CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, ns := range namespaces.Items {
		names = append(names, ns.Name)
	}
	for _, want := range []string{"kube-system", "default", "cluster-registry", "cluster-registry-private", "cluster-registry-readers"} {
		if !slices.Contains(names, want) {
			t.Errorf("namespace %s is missing from %v", want, names)
		}
	}
	groups, err := client.Discovery().ServerResourcesForGroupVersion("clusterregistry.k8s.cisco.com/v1alpha1")
	if err != nil || len(groups.APIResources) < 3 {
		t.Errorf("the CRDs are not served: %v", err)
	}
	if _, err := client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{}); err == nil {
		t.Error("nodes are served")
	}
	if err := s.Signal(syscall.SIGTERM, within); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(s.stderr.String()) {
		if !expected(line) {
			t.Errorf("of a start and an end the server says %q", line)
		}
	}
}

// established is since when the CRD of Clusters is.
func established(t *testing.T, client kubernetes.Interface) time.Time {
	t.Helper()
	data, err := client.Discovery().RESTClient().Get().AbsPath("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/clusters.clusterregistry.k8s.cisco.com").DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var crd struct {
		Status struct{ Conditions []metav1.Condition }
	}
	if err := json.Unmarshal(data, &crd); err != nil {
		t.Fatal(err)
	}
	for _, condition := range crd.Status.Conditions {
		if condition.Type == "Established" && condition.Status == metav1.ConditionTrue {
			return condition.LastTransitionTime.Time
		}
	}
	t.Fatalf("the CRD of Clusters is not established: %s", data)
	return time.Time{}
}

// expected says whether a line belongs to a start and an end in order. What a slow machine adds is that it was slow.
func expected(line string) bool {
	return slices.ContainsFunc([]string{`msg="certificates were written"`, "msg=serving", `msg="waiting for `, "took too long", "slow", `msg="request stats"`, "retrying of unary invoker"}, func(known string) bool {
		return strings.Contains(line, known)
	})
}

// TestBadInput: one line that names the flag or the file, and nothing is touched.
func TestBadInput(t *testing.T) {
	t.Parallel()
	taken, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	used := start(t, filepath.Join(t.TempDir(), "used"), "--cluster-name", "alpha")
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		dir   string
		flags []string
		code  int
		want  string
	}{
		{t.TempDir(), []string{"--listen", taken.Addr().String()}, 1, "--listen " + taken.Addr().String() + ": address already in use"},
		{t.TempDir(), []string{"--listen", "nowhere"}, 2, `--listen: "nowhere" is not HOST:PORT`},
		{used.dir, []string{"--listen", "127.0.0.1:0"}, 1, "--data-dir " + used.dir + ": another process uses this directory"},
		{file, []string{"--listen", "127.0.0.1:0"}, 1, "--data-dir " + file + ": "},
		{"", nil, 2, "--data-dir is required"},
		{t.TempDir(), []string{"--log-level", "loud"}, 2, "--log-level"},
		{t.TempDir(), []string{"--etcd-cafile", file}, 2, "go with --etcd-servers"},
		{t.TempDir(), []string{"--authorization-config", file, "--listen", "127.0.0.1:0"}, 1, "--authorization-config"},
		{t.TempDir(), []string{"now"}, 2, "takes flags only"},
	} {
		code, said := refused(t, c.dir, c.flags...)
		if code != c.code || !strings.Contains(said, c.want) {
			t.Errorf("%v: code %d, %q; want code %d and %q", c.flags, code, said, c.code, c.want)
		}
	}
	if err := used.Signal(syscall.SIGTERM, within); err != nil {
		t.Fatal(err)
	}
	if _, said := refused(t, used.dir, "--cluster-name", "beta", "--listen", "127.0.0.1:0"); !strings.Contains(said, "it belongs to cluster alpha") {
		t.Errorf("the directory of alpha, for beta: %q", said)
	}
}

// TestDamagedFile: a file of etcd that is damaged is named, and stays as it is.
func TestDamagedFile(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "d")
	s := start(t, dir)
	if err := s.Signal(syscall.SIGTERM, within); err != nil {
		t.Fatal(err)
	}
	logs, err := filepath.Glob(filepath.Join(dir, "etcd", "member", "wal", "*.wal"))
	if err != nil || len(logs) == 0 {
		t.Fatal("no log", err)
	}
	database := filepath.Join(dir, "etcd", "member", "snap", "db")
	for _, c := range []struct {
		name, file string
		damage     func([]byte) []byte
	}{
		{"log", logs[0], func(data []byte) []byte { return overwrite(data, 2000) }},
		{"page", database, func(data []byte) []byte { return overwrite(data, 3*4096, 4*4096, 5*4096, 6*4096, 7*4096, 8*4096) }},
		{"both metas", database, func(data []byte) []byte { return overwrite(data, 0, 16, 4096, 4096+16) }},
		{"cut off", database, func(data []byte) []byte { return data[:5000] }},
	} {
		whole, err := os.ReadFile(c.file)
		if err != nil {
			t.Fatal(err)
		}
		damaged := c.damage(bytes.Clone(whole))
		if err := os.WriteFile(c.file, damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		code, said := refused(t, dir, "--listen", "127.0.0.1:0")
		if code != 1 || !strings.Contains(said, c.file) || !strings.Contains(said, "it is damaged") {
			t.Errorf("%s: code %d, %q", c.name, code, said)
		}
		if now, err := os.ReadFile(c.file); err != nil || !bytes.Equal(now, damaged) {
			t.Errorf("%s was written to: %v", c.file, err)
		}
		if err := os.WriteFile(c.file, whole, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	start(t, dir)
}

// overwrite puts nonsense at each of these places.
func overwrite(data []byte, places ...int) []byte {
	for _, at := range places {
		copy(data[at:], bytes.Repeat([]byte{0xa5}, 64))
	}
	return data
}

// TestEndsWithItsParent: with --until-stdin-closes the server ends when the process that started it does.
func TestEndsWithItsParent(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	cmd := command(t, filepath.Join(t.TempDir(), "d"), "--until-stdin-closes")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p, err := harness.StartProcess(cmd)
	if err != nil {
		t.Fatal(err)
	}
	if !bufio.NewScanner(stdout).Scan() {
		t.Fatal("it is not ready")
	}
	if err := stdin.Close(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-p.Done():
	case <-ctx.Done():
		t.Error("it goes on without its parent")
		_ = p.Signal(syscall.SIGKILL, within)
	}
}
