// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package standalone

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roster-mesh/roster/e2e/harness"
)

// clusters starts agents that run the API servers of their clusters.
func clusters(t *testing.T, names ...string) *harness.Fleet {
	t.Helper()
	bin, err := harness.FindEmbedded(t.Context(), os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	fleet, err := harness.Up(t.Context(), harness.Options{Binaries: bin, Dir: t.TempDir(), Names: names, Embedded: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := fleet.Close(); err != nil {
			t.Error(err)
		}
		for _, c := range fleet.Clusters {
			if t.Failed() {
				t.Logf("log of %s:\n%s", c.Name, c.Log())
			}
		}
	})
	return fleet
}

// eventually waits until cond returns nil.
func eventually(t *testing.T, what string, cond func(context.Context) error) {
	t.Helper()
	if _, err := harness.Wait(t.Context(), what, within, cond); err != nil {
		t.Fatal(err)
	}
}

// must returns what a command printed.
func must(t *testing.T) func(out string, err error) string {
	t.Helper()
	return func(out string, err error) string {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
}

// TestAgentWithoutKubernetes: three agents with clusters of their own form a group and copy a Secret. One is killed, its
// API server ends with it, it misses a change, and makes up for it.
func TestAgentWithoutKubernetes(t *testing.T) {
	t.Parallel()
	fleet := clusters(t, "alpha", "beta", "gamma")
	alpha, beta, gamma := fleet.Clusters[0], fleet.Clusters[1], fleet.Clusters[2]
	for _, c := range []*harness.Cluster{beta, gamma} {
		must(t)(alpha.Agentctl(t.Context(), "join", "--peer-context", c.Name))
	}
	must(t)(alpha.Apply(t.Context(), harness.QuickstartRule))
	must(t)(gamma.Apply(t.Context(), harness.QuickstartSecret, "-n", harness.Namespace))
	value := func(c *harness.Cluster, want string) func(context.Context) error {
		return func(ctx context.Context) error {
			s, err := c.Kube.CoreV1().Secrets(harness.Namespace).Get(ctx, "test-secret", metav1.GetOptions{})
			if err == nil && string(s.Data["colour"]) != want {
				err = fmt.Errorf("colour is %q, not %q", s.Data["colour"], want)
			}
			return err
		}
	}
	eventually(t, "the copy in alpha", value(alpha, ""))
	eventually(t, "the copy in beta", value(beta, ""))
	eventually(t, "the distributions", func(ctx context.Context) error {
		out, err := beta.Kubectl(ctx, "get", "clusters", "-o", "jsonpath={.items[*].status.distribution}")
		if err == nil && out != "STANDALONE STANDALONE STANDALONE" {
			err = fmt.Errorf("they are %q", out)
		}
		return err
	})

	if err := alpha.KillAgent(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the API server of alpha ends with its agent", alpha.APIServerEnded)
	must(t)(gamma.Kubectl(t.Context(), "-n", harness.Namespace, "patch", "secret", "test-secret", "-p", `{"stringData":{"colour":"green"}}`))
	eventually(t, "the change in beta", value(beta, "green"))
	if err := alpha.StartAgent(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the missed change in alpha", value(alpha, "green"))
}

// TestServerIsStartedAgain: the agent goes on with the server that it starts in place of one that was killed.
func TestServerIsStartedAgain(t *testing.T) {
	t.Parallel()
	alpha := clusters(t, "alpha").Clusters[0]
	first := children(t, alpha.AgentPID())
	if len(first) != 1 {
		t.Fatalf("the children of the agent are %v", first)
	}
	if err := syscall.Kill(first[0], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "another server", func(context.Context) error {
		if now := children(t, alpha.AgentPID()); len(now) != 1 || now[0] == first[0] {
			return fmt.Errorf("the children of the agent are %v", now)
		}
		return nil
	})
	eventually(t, "alpha has its credential", func(ctx context.Context) error {
		_, err := alpha.Kube.CoreV1().Secrets(harness.Namespace).Get(ctx, alpha.Name, metav1.GetOptions{})
		return err
	})
	if err := alpha.AgentAlive(t.Context()); err != nil {
		t.Error(err)
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
	used := fmt.Sprintf("127.0.0.1:%d", clusters(t, "alpha").Clusters[0].APIPort)
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"--local docker --data-dir d", 2, `--local: "docker" is not embedded`},
		{"--local embedded --data-dir=", 2, "--data-dir: --local embedded keeps the cluster there"},
		{"--local embedded --data-dir d --kubeconfig k", 2, "--local: embedded is a cluster of this agent's own"},
		{"--local embedded --data-dir d --namespace other", 2, "--namespace: with --local embedded it is cluster-registry"},
		{"--local embedded --data-dir d --local-listen :0", 2, `--local-listen: ":0" would be another port each time`},
		{"--local-listen :6443 --kubeconfig k", 2, "--local-listen goes with --local embedded"},
		{"--local embedded --cluster-name beta --http-listen= --mesh-listen 127.0.0.1:0 --data-dir " + t.TempDir() + " --local-listen " + used, 1, "--local-listen " + used + ": address already in use"},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), within)
		cmd := exec.CommandContext(ctx, filepath.Join(filepath.Dir(program(t)), "agent"), append([]string{"run"}, strings.Fields(c.args)...)...)
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

// TestAgentEndsDuringStart: an agent that is told to end while its API server starts ends in order, which is no error.
func TestAgentEndsDuringStart(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(filepath.Dir(program(t)), "agent"), "run", "--local", "embedded", "--cluster-name", "alpha",
		"--http-listen=", "--mesh-listen", "127.0.0.1:0", "--local-listen", address(t), "--data-dir", t.TempDir())
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var said []string
	for lines := bufio.NewScanner(stderr); lines.Scan(); {
		if said = append(said, lines.Text()); len(said) == 1 { // its certificates were written
			if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Error(err)
			}
		}
	}
	if err := cmd.Wait(); err != nil || strings.Contains(strings.Join(said, "\n"), "canceled") {
		t.Errorf("it ended with %v, and said %q", err, said)
	}
}
