// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/version"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

func TestWait(t *testing.T) {
	t.Parallel()
	n := 0
	if _, err := Wait(t.Context(), "three looks", time.Minute, func(context.Context) error {
		if n++; n < 3 {
			return errors.New("not yet")
		}
		return nil
	}); err != nil || n != 3 {
		t.Errorf("after %d looks: %v", n, err)
	}
	_, err := Wait(t.Context(), "the impossible", 1, func(context.Context) error { return errors.New("no way") })
	if err == nil || !strings.Contains(err.Error(), "the impossible: not within 1ns: no way") {
		t.Errorf("the error is %v", err)
	}
	_, err = Wait(t.Context(), "an agent", time.Hour, func(context.Context) error { return fmt.Errorf("%w: bang", ErrAgentEnded) })
	if !errors.Is(err, ErrAgentEnded) {
		t.Errorf("an agent that has ended was waited for: %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = Wait(ended, "it", time.Hour, func(context.Context) error { return errors.New("no") })
	if !errors.Is(err, context.Canceled) || strings.Contains(err.Error(), "not within") {
		t.Errorf("when the caller's context ended: %v", err)
	}
}

func TestPIDsOf(t *testing.T) {
	t.Parallel()
	list := `{"testbed": 1, "etcd-1": 2, "apiserver-1": 3, "controller-manager-1": 4, "apiserver-11": 5, "apiserver-2": 6}`
	for index, want := range map[int]map[string]int{
		1:  {"etcd": 2, "apiserver": 3, "controller-manager": 4},
		2:  {"apiserver": 6},
		11: {"apiserver": 5},
		3:  {},
	} {
		if got, err := pidsOf([]byte(list), index); err != nil || !maps.Equal(got, want) {
			t.Errorf("of control plane %d: %v, %v; want %v", index, got, err, want)
		}
	}
	if _, err := pidsOf([]byte("{"), 1); err == nil {
		t.Error("no error of half a list")
	}
}

func TestStays(t *testing.T) {
	t.Parallel()
	if err := Stays(t.Context(), "true", 1, func(context.Context) error { return nil }); err != nil {
		t.Error(err)
	}
	if err := Stays(t.Context(), "false", time.Hour, func(context.Context) error { return errors.New("gone") }); err == nil {
		t.Error("what is not so has stayed so")
	}
}

func TestAddContext(t *testing.T) {
	t.Parallel()
	from := clientcmdapi.NewConfig()
	if err := addContext(clientcmdapi.NewConfig(), from, "x"); err == nil {
		t.Error("a kubeconfig without a context is taken")
	}
	from.Clusters["c"] = &clientcmdapi.Cluster{Server: "https://127.0.0.1:1"}
	from.AuthInfos["u"] = &clientcmdapi.AuthInfo{Token: "t"}
	from.Contexts["cluster-1"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	from.CurrentContext = "cluster-1"
	to := clientcmdapi.NewConfig()
	for _, name := range []string{"alpha", "beta"} {
		if err := addContext(to, from, name); err != nil {
			t.Fatal(err)
		}
	}
	if to.CurrentContext != "alpha" || to.Contexts["beta"].Cluster != "beta" || to.Clusters["beta"].Server != "https://127.0.0.1:1" {
		t.Errorf("merged into %+v", to)
	}
}

func TestPortsAreDistinct(t *testing.T) {
	t.Parallel()
	seen := map[int]bool{}
	for range 20 {
		port, err := choosePort(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if seen[port] {
			t.Errorf("port %d twice", port)
		}
		seen[port] = true
	}
}

func TestProcess(t *testing.T) {
	t.Parallel()
	p, err := StartProcess(exec.Command("sleep", "1000"))
	if err != nil {
		t.Fatal(err)
	}
	if rss, err := ResidentMemory(p.PID()); err != nil || rss <= 0 {
		t.Errorf("resident memory %d: %v", rss, err)
	}
	if _, err := CPUTime(p.PID()); err != nil {
		t.Error(err)
	}
	if p.Ended() {
		t.Error("it has ended by itself")
	}
	if err := p.Signal(syscall.SIGTERM, time.Minute); err != nil || !p.Ended() {
		t.Errorf("after SIGTERM: ended %v, %v", p.Ended(), err)
	}
	if _, err := ResidentMemory(os.Getpid()); err != nil {
		t.Error(err)
	}
}

func TestCommandError(t *testing.T) {
	t.Parallel()
	out, err := run(t.Context(), exec.CommandContext(t.Context(), "sh", "-c", "echo out; echo why >&2; exit 3"))
	var failed *CommandError
	if !errors.As(err, &failed) || failed.ExitCode() != 3 || !strings.Contains(err.Error(), "why") || out != "out\n" {
		t.Errorf("%q, %v", out, err)
	}
}

func TestWithinSkew(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		kubectl string
		want    bool
	}{
		{"v1.35.9", false},
		{"v1.36.0", true},
		{"v1.37.9", true},
		{"v1.38.0-rc.1+k3s1", true},
		{"v1.39.0", false},
		{"v2.37.2", false},
		{"", false},
	} {
		have, err := clientVersion(fmt.Appendf(nil, `{"clientVersion": {"major": "1", "gitVersion": %q}, "kustomizeVersion": "v5.8.1"}`, c.kubectl))
		if got := err == nil && withinSkew(have, version.MustParseSemantic("v1.37.2")); got != c.want {
			t.Errorf("%s for v1.37.2: %v, %v", c.kubectl, got, err)
		}
	}
}

func TestMissingBinaries(t *testing.T) {
	t.Parallel()
	here, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	b := Binaries{Root: filepath.Dir(here), Agent: here, Agentctl: filepath.Join(filepath.Dir(here), "bin", "agentctl")}
	err = b.check("build", b.Agent, b.Agentctl)
	if !errors.Is(err, ErrNotBuilt) || !strings.HasSuffix(err.Error(), ": bin/agentctl; run `make build` first") {
		t.Errorf("got %v", err)
	}
}

// An agent that runs the API server of its cluster gets no kubeconfig, and another port than all others.
func TestAgentFlags(t *testing.T) {
	t.Parallel()
	for _, embedded := range []bool{false, true} {
		f := &Fleet{Dir: t.TempDir(), embedded: embedded}
		if err := f.addClusters(t.Context(), []string{"alpha", "beta"}); err != nil {
			t.Fatal(err)
		}
		seen := map[string]bool{}
		for _, c := range f.Clusters {
			flags := c.AgentFlags()
			if slices.Contains(flags, "--kubeconfig") == embedded || slices.Contains(flags, "--local") != embedded {
				t.Errorf("embedded %v: %v", embedded, flags)
			}
			for _, port := range []int{c.APIPort, c.MeshPort, c.HTTPPort} {
				if seen[loopback(port)] {
					t.Errorf("port %d twice", port)
				}
				seen[loopback(port)] = true
			}
		}
	}
}
