// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package standalone

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/roster-mesh/roster/e2e/harness"
)

// cluster is an agent with a cluster of its own.
type cluster struct {
	*harness.Process

	name, dir   string
	flags       []string
	bin         harness.Binaries
	log         string
	listenLocal string
}

// newCluster starts nothing.
func newCluster(t *testing.T, name string) *cluster {
	t.Helper()
	bin, err := harness.FindBinaries()
	if err != nil {
		t.Fatal(err)
	}
	c := &cluster{name: name, dir: filepath.Join(t.TempDir(), name), bin: bin}
	c.log = c.dir + ".log"
	c.listenLocal = address(t)
	c.flags = []string{
		"run", "--local", "embedded", "--local-listen", c.listenLocal, "--data-dir", c.dir, "--cluster-name", name,
		"--mesh-listen", address(t), "--http-listen", "",
	}
	return c
}

// nextPort is where address looks next, below the range of outgoing connections.
var nextPort atomic.Int32

// address is one of this machine that nothing listens on. Each call returns another one.
func address(t *testing.T) string {
	t.Helper()
	for {
		a := fmt.Sprintf("127.0.0.1:%d", 24000+os.Getpid()%400*20+int(nextPort.Add(1)))
		if l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", a); err == nil {
			_ = l.Close()
			return a
		}
	}
}

func (c *cluster) start(t *testing.T) {
	t.Helper()
	log, err := os.OpenFile(c.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd := exec.Command(c.bin.Agent, c.flags...)
	cmd.Stdout, cmd.Stderr = log, log
	if c.Process, err = harness.StartProcess(cmd); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Signal(syscall.SIGKILL, within)
		if t.Failed() {
			data, _ := os.ReadFile(c.log)
			t.Logf("log of %s:\n%s", c.name, data)
		}
	})
}

func (c *cluster) kubeconfig() string { return filepath.Join(c.dir, "apiserver", "admin.kubeconfig") }

func (c *cluster) kubernetes(t *testing.T) *kubernetes.Clientset {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", c.kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// eventually waits until cond returns nil.
func eventually(t *testing.T, what string, cond func(context.Context) error) {
	t.Helper()
	if _, err := harness.Wait(t.Context(), what, within, cond); err != nil {
		t.Fatal(err)
	}
}

// merge writes one kubeconfig with a context for each cluster.
func merge(t *testing.T, clusters ...*cluster) string {
	t.Helper()
	all := clientcmdapi.NewConfig()
	for _, c := range clusters {
		one, err := clientcmd.LoadFromFile(c.kubeconfig())
		if err != nil {
			t.Fatal(err)
		}
		current := one.Contexts[one.CurrentContext]
		all.Clusters[c.name], all.AuthInfos[c.name] = one.Clusters[current.Cluster], one.AuthInfos[current.AuthInfo]
		all.Contexts[c.name] = &clientcmdapi.Context{Cluster: c.name, AuthInfo: c.name}
	}
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*all, path); err != nil {
		t.Fatal(err)
	}
	return path
}

func tool(t *testing.T, kubeconfig, stdin, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig, "HOME="+t.TempDir())
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %v: %v: %s", name, args, err, out)
	}
	return string(out)
}

// TestAgentWithoutKubernetes: three agents with clusters of their own form a group and copy a Secret. One is killed with
// everything that it had started, misses a change, and makes up for it.
func TestAgentWithoutKubernetes(t *testing.T) {
	t.Parallel()
	clusters := []*cluster{newCluster(t, "alpha"), newCluster(t, "beta"), newCluster(t, "gamma")}
	for _, c := range clusters {
		c.start(t)
	}
	for _, c := range clusters {
		eventually(t, c.name+" has a credential to swap", func(ctx context.Context) error {
			if _, err := os.Stat(c.kubeconfig()); err != nil {
				return err
			}
			_, err := c.kubernetes(t).CoreV1().Secrets(harness.Namespace).Get(ctx, c.name, metav1.GetOptions{})
			return err
		})
	}
	config := merge(t, clusters...)
	bin := clusters[0].bin
	for _, c := range clusters[1:] {
		tool(t, config, "", bin.Agentctl, "join", "--context", "alpha", "--peer-context", c.name)
	}
	tool(t, config, harness.QuickstartRule, bin.Kubectl, "--context", "alpha", "apply", "-f", "-")
	tool(t, config, harness.QuickstartSecret, bin.Kubectl, "--context", "gamma", "-n", harness.Namespace, "apply", "-f", "-")
	value := func(c *cluster, want string) func(context.Context) error {
		return func(ctx context.Context) error {
			s, err := c.kubernetes(t).CoreV1().Secrets(harness.Namespace).Get(ctx, "test-secret", metav1.GetOptions{})
			if err == nil && string(s.Data["colour"]) != want {
				err = fmt.Errorf("colour is %q, not %q", s.Data["colour"], want)
			}
			return err
		}
	}
	eventually(t, "the copy in alpha", value(clusters[0], ""))
	eventually(t, "the copy in beta", value(clusters[1], ""))
	out := tool(t, config, "", bin.Kubectl, "--context", "beta", "get", "clusters", "-o", "jsonpath={.items[*].status.distribution}")
	if out != "STANDALONE STANDALONE STANDALONE" {
		t.Errorf("the distributions are %q", out)
	}

	if err := clusters[0].Signal(syscall.SIGKILL, within); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the API server of alpha ends with its agent", func(ctx context.Context) error {
		_, err := clusters[0].kubernetes(t).Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(ctx)
		if status := (*apierrors.StatusError)(nil); err == nil || errors.As(err, &status) {
			return fmt.Errorf("it answers: %w", err)
		}
		return nil
	})
	tool(t, config, "", bin.Kubectl, "--context", "gamma", "-n", harness.Namespace, "patch", "secret", "test-secret", "-p", `{"stringData":{"colour":"green"}}`)
	eventually(t, "the change in beta", value(clusters[1], "green"))
	clusters[0].start(t)
	eventually(t, "the missed change in alpha", value(clusters[0], "green"))
	if err := clusters[0].Signal(syscall.SIGTERM, within); err != nil {
		t.Fatal(err)
	}
}

// TestServerIsStartedAgain: the agent goes on with the server that it starts in place of one that was killed.
func TestServerIsStartedAgain(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "alpha")
	c.start(t)
	ready := func(ctx context.Context) error {
		if _, err := os.Stat(c.kubeconfig()); err != nil {
			return err
		}
		_, err := c.kubernetes(t).CoreV1().Secrets(harness.Namespace).Get(ctx, "alpha", metav1.GetOptions{})
		return err
	}
	eventually(t, "alpha has a credential", ready)
	first := children(t, c.PID())
	if len(first) != 1 {
		t.Fatalf("the children of the agent are %v", first)
	}
	if err := syscall.Kill(first[0], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "another server", func(context.Context) error {
		if now := children(t, c.PID()); len(now) != 1 || now[0] == first[0] {
			return fmt.Errorf("the children of the agent are %v", now)
		}
		return nil
	})
	eventually(t, "alpha has its credential", ready)
	if c.Ended() {
		t.Error("the agent ended with its server")
	}
}

// children returns the processes that a process has started and that run.
func children(t *testing.T, pid int) []int {
	t.Helper()
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		t.Fatal(err)
	}
	var out []int
	for _, task := range tasks {
		data, err := os.ReadFile(task)
		if err != nil {
			continue // the thread has ended
		}
		for field := range strings.FieldsSeq(string(data)) {
			var child int
			if _, err := fmt.Sscan(field, &child); err == nil {
				out = append(out, child)
			}
		}
	}
	return out
}

// TestAgentRefuses: what does not go with a cluster of the agent's own is one line that names the flag.
func TestAgentRefuses(t *testing.T) {
	t.Parallel()
	used := newCluster(t, "alpha")
	used.start(t)
	eventually(t, "alpha", func(context.Context) error { _, err := os.Stat(used.kubeconfig()); return err })
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"--local docker --data-dir d", 2, `--local: "docker" is not embedded`},
		{"--local embedded --data-dir=", 2, "--data-dir: --local embedded keeps the cluster there"},
		{"--local embedded --data-dir d --kubeconfig k", 2, "--local: embedded is a cluster of this agent's own"},
		{"--local embedded --data-dir d --namespace other", 2, "--namespace: with --local embedded it is cluster-registry"},
		{"--local-listen :6443 --kubeconfig k", 2, "--local-listen goes with --local embedded"},
		{"--local embedded --cluster-name beta --http-listen= --mesh-listen 127.0.0.1:0 --data-dir " + t.TempDir() + " --local-listen " + used.listenLocal, 1, "--local-listen " + used.listenLocal + ": address already in use"},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), within)
		cmd := exec.CommandContext(ctx, used.bin.Agent, append([]string{"run"}, strings.Fields(c.args)...)...)
		cmd.Dir = t.TempDir()
		cmd.WaitDelay = time.Second
		out, _ := cmd.CombinedOutput() // its code is looked at
		cancel()
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		if code, last := cmd.ProcessState.ExitCode(), lines[len(lines)-1]; code != c.code || !strings.Contains(last, c.want) {
			t.Errorf("%s: code %d, %q; want %d and %q", c.args, code, last, c.code, c.want)
		}
	}
}
