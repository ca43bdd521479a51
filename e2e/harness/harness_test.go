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
	"strings"
	"syscall"
	"testing"
	"time"

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
	ports, seen := newPorts(), map[int]bool{}
	for range 20 {
		port, err := ports.choose(t.Context())
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
