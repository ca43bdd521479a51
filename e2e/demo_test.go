// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/roster-mesh/roster/e2e/harness"
)

// The demo is the quickstart by agentctl join, in clusters of its own. It says so only when it has seen
// every step, then stays up, and ends cleanly when it is interrupted. (Without Kubernetes it is played by make demo-once.)
func TestDemo(t *testing.T) {
	program := filepath.Join(t.TempDir(), "demo")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, "./demo").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	cmd := exec.CommandContext(t.Context(), program, "--kubernetes")
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = cmd.Stdout
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = time.Minute
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for lines := bufio.NewScanner(stdout); lines.Scan(); {
		all.WriteString(lines.Text() + "\n")
		if strings.HasPrefix(lines.Text(), "Press ctrl-C") {
			if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
				t.Error(err)
			}
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, &all)
	}
	t.Log(all.String())
	if !strings.Contains(all.String(), "Every step was observed.") {
		t.Error("the demo ended well without saying so")
	}
	if strings.Contains(all.String(), "\x1b") {
		t.Error("the demo prints colours where there is no terminal")
	}
}

// The archive of the demo plays the quickstart where there is nothing: no PATH, no HOME, no checkout.
func TestDemoArchive(t *testing.T) {
	bin, err := harness.FindEmbedded(t.Context(), os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	goEnv := func(name string) string {
		out, err := exec.CommandContext(t.Context(), "go", "env", name).Output()
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(out))
	}
	dir := t.TempDir()
	system, arch := goEnv("GOOS"), goEnv("GOARCH")
	built := filepath.Join(dir, system+"_"+arch)
	if err := os.Mkdir(built, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, program := range []string{bin.Agent, bin.Agentctl, bin.Kubectl, filepath.Join(bin.Root, "bin", "roster-apiserver")} {
		if err := os.Symlink(program, filepath.Join(built, filepath.Base(program))); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{
		{"go", "build", "-trimpath", "-o", filepath.Join(built, "demo"), "./e2e/demo"},
		{
			"go", "run", "./cmd/internal/release", "-version", "0.1.0", "-date", "2026-01-02T03:04:05Z", "-binaries", dir, "-platforms", system + "/" + arch,
			"-modules", goEnv("GOMODCACHE"), "-goroot", goEnv("GOROOT"), "-out", dir, "-demo-compression", "1", "demo",
		},
		{"tar", "-xzf", filepath.Join(dir, "roster-demo-0.1.0-"+system+"-"+arch+".tar.gz"), "-C", dir},
	} {
		cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
		cmd.Dir, cmd.Env = bin.Root, append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
	}
	demo := filepath.Join(dir, "roster-demo-0.1.0-"+system+"-"+arch, "demo")
	slow := playPacked(t, demo, dir)
	if slow != nil { // others may have begun to keep the machine busy in the middle
		t.Log(slow)
		slow = playPacked(t, demo, dir)
	}
	if slow != nil {
		t.Error(slow)
	}
}

// playPacked plays the demo to its end. The error says that it was slow.
func playPacked(t *testing.T, demo, dir string) error {
	t.Helper()
	began := time.Now()
	cmd := exec.CommandContext(t.Context(), demo, "--once")
	cmd.Dir, cmd.Env = "/", []string{"TMPDIR=" + dir}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "Every step was observed.") {
		t.Fatalf("%v\n%s", err, out)
	}
	took, processors := time.Since(began), cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime()
	t.Logf("it took %.1f s, and %.1f s of processors", took.Seconds(), processors.Seconds())
	if err := quickEnough(string(out), took, processors); err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	return nil
}

// quickest is how long the demo may take on two processors that have nothing else to do. It computes for half as long.
const quickest = 20 * time.Second

// quickEnough returns an error when a demo was slow by itself, and not because others kept the machine busy: then its clusters took as
// much longer to start, and it did not compute for longer. Of a program that was killed, processors has nothing.
func quickEnough(out string, took, processors time.Duration) error {
	_, first, _ := strings.Cut(out, " ok ")
	first, _, _ = strings.Cut(strings.TrimSpace(first), " s ")
	start, err := time.ParseDuration(first + "s")
	switch {
	case err != nil:
		return fmt.Errorf("how long the clusters took to start: %w", err)
	case took <= quickest:
	case processors > max(quickest, 2*start):
		return fmt.Errorf("it took %s, and %s of processors: more than %s, both, and more than twice as long as its clusters took to start, %s", took, processors, quickest, start)
	case took > 3*start:
		return fmt.Errorf("it took %s, more than %s and more than three times as long as its clusters took to start, %s", took, quickest, start)
	}
	return nil
}

// The clock of a busy machine says nothing.
func TestDemoIsQuickEnough(t *testing.T) {
	const out = "1. Start 3 clusters\n   ok    8.0 s alpha, beta and gamma\n   ok   757 ms alpha and beta\n"
	for _, c := range []struct {
		out              string
		took, processors time.Duration
		slow             bool
	}{
		{out, 19, 30, false},
		{out, 23, 15, false}, // the start was slow, too
		{out, 25, 15, true},
		{out, 23, 21, true},
		{"   ok   900 ms alpha, beta and gamma", 19, 10, true}, // no server starts so fast
		{"", 1, 1, true},
	} {
		if err := quickEnough(c.out, c.took*time.Second, c.processors*time.Second); (err != nil) != c.slow {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
