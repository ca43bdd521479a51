// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// limit is how long any one step may take on a busy machine.
const limit = 3 * time.Minute

func contextOf(t *testing.T) (context.Context, context.CancelFunc) {
	t.Helper()
	return context.WithTimeout(t.Context(), limit)
}

// running is a testbed in a process of its own.
type running struct {
	cmd *exec.Cmd
	dir string
	out *bytes.Buffer
}

// startTestbed runs the program and returns when it has printed "ready".
func startTestbed(t *testing.T, dir string, extra ...string) *running {
	t.Helper()
	args := append([]string{"up", "--clusters", "1", "--dir", dir, "--bin", binaries(t)}, extra...)
	r := &running{cmd: exec.Command(os.Args[0], args...), dir: dir, out: new(bytes.Buffer)}
	r.cmd.Env = append(os.Environ(), "TESTBED_MAIN=1")
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	r.cmd.Stderr = r.out
	stdout, err := r.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if r.cmd.ProcessState == nil {
			r.cmd.Process.Kill() //nolint:errcheck // The test has failed already.
			r.cmd.Wait()         //nolint:errcheck // As above.
		}
	})
	ready := make(chan bool, 1)
	go func() {
		lines := bufio.NewScanner(stdout)
		for lines.Scan() {
			if lines.Text() == "ready" {
				ready <- true
			}
		}
		ready <- false
	}()
	select {
	case ok := <-ready:
		if !ok {
			t.Fatalf("testbed up ended before it was ready: %s", r.out)
		}
	case <-time.After(limit):
		t.Fatalf("testbed up was not ready after %s", limit)
	}
	return r
}

func (r *running) pids(t *testing.T) map[string]int {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(r.dir, "pids.json"))
	if err != nil {
		t.Fatal(err)
	}
	var pids map[string]int
	if err := json.Unmarshal(data, &pids); err != nil {
		t.Fatal(err)
	}
	return pids
}

// control runs a testbed command and returns what it printed.
func (r *running) control(t *testing.T, want int, args ...string) string {
	t.Helper()
	var out bytes.Buffer
	ctx, cancel := contextOf(t)
	defer cancel()
	if got := run(ctx, append(args, "--dir", r.dir), &out, &out); got != want {
		t.Fatalf("testbed %s: status %d, want %d: %s", strings.Join(args, " "), got, want, &out)
	}
	return out.String()
}

// api returns a client of cluster-1.
func (r *running) api(t *testing.T) *apiClient {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(r.dir, "cluster-1.kubeconfig"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(data), "server: ")
	server, _, _ := strings.Cut(rest, "\n")
	client, err := newAPIClient(server, pki{dir: filepath.Join(r.dir, "cluster-1", "pki")})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// gone waits until no process with these ids runs.
func gone(t *testing.T, pids map[string]int) {
	t.Helper()
	deadline := time.Now().Add(limit)
	for name, pid := range pids {
		for alive(pid) {
			if time.Now().After(deadline) {
				t.Fatalf("%s (pid %d) is still there after %s", name, pid, limit)
			}
			time.Sleep(10 * time.Millisecond) // Between two looks at the process table.
		}
	}
}

// alive is false for a zombie, too: in a container nobody may collect what lost its parent.
func alive(pid int) bool {
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	_, state, _ := bytes.Cut(stat, []byte(") "))
	return err == nil && !bytes.HasPrefix(state, []byte("Z"))
}

// The whole of it on real binaries: up, outages, end by signal, up again on the same data, killed.
func TestRealControlPlane(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "bed")
	bed := startTestbed(t, dir, "--wait")
	api := bed.api(t)
	if err := api.do(t.Context(), http.MethodGet, "/api/v1/namespaces/default/serviceaccounts/default"); err != nil {
		t.Errorf("the controllers have not run: %v", err)
	}

	t.Run("in use", func(t *testing.T) {
		var out bytes.Buffer
		args := []string{"up", "--dir", dir, "--bin", binaries(t)}
		if status := run(t.Context(), args, &out, &out); status != 1 || !strings.Contains(out.String(), "in use") {
			t.Errorf("second up: status %d: %s", status, &out)
		}
	})
	t.Run("bad commands", func(t *testing.T) {
		for want, args := range map[string][]string{
			"one of etcd-1, apiserver-1, controller-manager-1": {"stop", "--component", "apiserver-2"},
			"apiserver-1 is running already":                   {"start", "--component", "apiserver-1"},
			"--signal must be KILL, TERM or STOP":              {"stop", "--component", "etcd-1", "--signal", "HUP"},
		} {
			if got := bed.control(t, 1, args...); !strings.Contains(got, want) {
				t.Errorf("%v: got %q, want %q", args, got, want)
			}
		}
	})
	t.Run("outages", func(t *testing.T) { outages(t, bed, api) })
	t.Run("ends by itself", func(t *testing.T) { endsByItself(t, bed) })

	pids := bed.pids(t)
	if err := bed.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := bed.cmd.Wait(); err != nil {
		t.Errorf("testbed up after SIGTERM: %v: %s", err, bed.out)
	}
	gone(t, pids)
	if _, err := os.Stat(filepath.Join(dir, "pids.json")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("pids.json is left: %v", err)
	}

	again := startTestbed(t, dir)
	if again.api(t).server != api.server {
		t.Error("the API server moved to another port")
	}
	if err := api.do(t.Context(), http.MethodGet, "/api/v1/namespaces/default/serviceaccounts/default"); err != nil {
		t.Errorf("the data is lost: %v", err)
	}
	pids = again.pids(t)
	if err := again.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	again.cmd.Wait() //nolint:errcheck // It was killed.
	gone(t, pids)
}

// outages stops and starts each component, and freezes the API server.
func outages(t *testing.T, bed *running, api *apiClient) {
	for _, name := range []string{"apiserver-1", "etcd-1", "controller-manager-1"} {
		before := bed.pids(t)[name]
		bed.control(t, 0, "stop", "--component", name)
		if pid, ok := bed.pids(t)[name]; ok {
			t.Errorf("%s is stopped and has pid %d in pids.json", name, pid)
		}
		gone(t, map[string]int{name: before})
		if name == "apiserver-1" {
			if err := api.do(t.Context(), http.MethodGet, "/readyz"); !errors.Is(err, syscall.ECONNREFUSED) {
				t.Errorf("a stopped API server answers with %v", err)
			}
			got := bed.control(t, 1, "start", "--component", "controller-manager-1")
			if !strings.Contains(got, "needs apiserver-1, which is stopped") {
				t.Errorf("start without an API server: %q", got)
			}
		}
		bed.control(t, 0, "start", "--component", name)
		if pid := bed.pids(t)[name]; pid == 0 || pid == before {
			t.Errorf("%s has pid %d after the start, %d before", name, pid, before)
		}
		if err := api.do(t.Context(), http.MethodGet, "/api/v1/namespaces/default"); err != nil {
			t.Errorf("after the start of %s: %v", name, err)
		}
	}
	before := bed.pids(t)["apiserver-1"]
	bed.control(t, 0, "stop", "--component", "apiserver-1", "--signal", "STOP")
	if got := bed.control(t, 0, "status"); !strings.Contains(got, "frozen") {
		t.Errorf("status of a frozen API server:\n%s", got)
	}
	bed.control(t, 0, "start", "--component", "apiserver-1")
	if pid := bed.pids(t)["apiserver-1"]; pid != before {
		t.Errorf("the thawed API server has pid %d, before %d", pid, before)
	}
}

// endsByItself kills a component behind the testbed's back, which then shows it as stopped.
func endsByItself(t *testing.T, bed *running) {
	const name = "controller-manager-1"
	pid := bed.pids(t)[name]
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	gone(t, map[string]int{name: pid})
	deadline := time.Now().Add(limit)
	for bed.pids(t)[name] != 0 {
		if time.Now().After(deadline) {
			t.Fatalf("%s is in pids.json %s after its end", name, limit)
		}
		time.Sleep(10 * time.Millisecond) // Between two reads of the file.
	}
	bed.control(t, 0, "start", "--component", name)
}
