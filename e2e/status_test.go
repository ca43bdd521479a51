// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/roster-mesh/roster/e2e/harness"
)

// asks is a condition: agentctl ends with the code and prints all of the texts.
func (g *group) asks(code int, args []string, texts ...string) func(context.Context) error {
	return func(ctx context.Context) error {
		a := g.ask(ctx, args...)
		if a.code != code {
			return fmt.Errorf("agentctl %s: exit code %d, not %d:\n%s", strings.Join(args, " "), a.code, code, a.out)
		}
		for _, text := range texts {
			if !strings.Contains(a.out, text) {
				return fmt.Errorf("agentctl %s does not print %q:\n%s", strings.Join(args, " "), text, a.out)
			}
		}
		return nil
	}
}

// A group that is well: status says so on one screen, and the doctor, who looks at all three clusters from
// outside, finds nothing.
func TestStatusHealthy(t *testing.T) {
	g := joined(t)
	eventually(t, "status is healthy", within, g.asks(0, []string{"status", "--context", "alpha"},
		"alpha: healthy", "clusters: 3, 3 healthy", "CLUSTER", "LAG"))
	eventually(t, "the doctor finds nothing", within, g.asks(0, doctor(), "12 checks of alpha, beta, gamma: nothing found"))
	eventually(t, "with one context, too", within, g.asks(0, []string{"doctor", "--context", "beta"}, "nothing found"))
}

func doctor(flags ...string) []string {
	return append([]string{"doctor", "--context", "alpha", "--peer-context", "beta", "--peer-context", "gamma"}, flags...)
}

// One agent is killed: both name it and end with the code, and the doctor has the command. A status that is
// watched says it by itself.
func TestStatusAgentKilled(t *testing.T) {
	g := joined(t)
	eventually(t, "status is healthy", within, g.asks(0, []string{"status", "--context", "alpha"}))
	watching, lines := g.watchStatus(t)
	t.Cleanup(func() {
		if err := g.gamma.StartAgent(lasting(t)); err != nil {
			t.Error(err)
		}
		g.eventuallyWhole(t, afterFault)
	})
	if err := g.gamma.KillAgent(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "status names the agent", afterFault, g.asks(5, []string{"status", "--context", "alpha"}, "gamma", "Failed", "unhealthy: cluster gamma: "))
	eventually(t, "the doctor names it", within, g.asks(5, doctor(),
		"error    mesh, gamma: its mesh port does not answer, neither here nor to the agents in alpha",
		"error    members, gamma: the agents in alpha, beta (2 of 2) say of gamma: ",
		"kubectl --context gamma -n cluster-registry rollout restart deployment,statefulset -l app.kubernetes.io/part-of=roster,app.kubernetes.io/component=agent"))
	eventually(t, "also from gamma alone, whose status nobody writes any more", within, g.asks(5, []string{"doctor", "--context", "gamma"}, "error    mesh, gamma: "))
	eventually(t, "the doctor finds nothing else", within, func(ctx context.Context) error {
		var out struct {
			Findings []struct{ Check, Severity, Cluster, Message, Fix string }
		}
		if err := json.Unmarshal([]byte(g.ask(ctx, doctor("-o", "json", "--skip", "members")...).stdout()), &out); err != nil {
			return err
		}
		for _, f := range out.Findings {
			if f.Check != "mesh" || f.Cluster != "gamma" || f.Fix == "" {
				return fmt.Errorf("finding about something else than gamma: %+v", f)
			}
		}
		return nil
	})
	eventually(t, "the watched status tells it", within, func(context.Context) error {
		if text := lines(); !strings.Contains(text, "cluster gamma: Failed") {
			return fmt.Errorf("no such line in %q", text)
		}
		return nil
	})
	watching()
}

// stdout is what was printed before the error.
func (a answer) stdout() string { return a.out[:strings.LastIndex(a.out, "}")+1] }

// watchStatus runs status --watch into a pipe until stop.
func (g *group) watchStatus(t *testing.T) (stop func(), lines func() string) {
	t.Helper()
	bin, err := harness.FindBinaries()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cmd := exec.CommandContext(ctx, bin.Agentctl, "status", "--watch", "--kubeconfig", g.Kubeconfig, "--context", "alpha")
	var out locked
	cmd.Stdout = &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stop = func() {
		cancel()
		_ = cmd.Wait() // it was killed
	}
	t.Cleanup(stop)
	eventually(t, "the first lines", within, func(context.Context) error {
		if !strings.Contains(out.String(), "cluster gamma: Alive") {
			return fmt.Errorf("not yet: %q", out.String())
		}
		return nil
	})
	return stop, out.String
}

// A rule for a kind without the rights for it: the doctor has the command that grants them, and it works.
func TestDoctorGrants(t *testing.T) {
	g := joined(t)
	name := fmt.Sprintf("leases-%d", time.Now().UnixNano())
	g.cleanUp(t, name)
	apply(t, g.alpha, fmt.Sprintf(`apiVersion: clusterregistry.k8s.cisco.com/v1alpha1
kind: ResourceSyncRule
metadata: {name: %[1]s}
spec:
  groupVersionKind: {group: coordination.k8s.io, version: v1, kind: Lease}
  rules: [{match: [{objectKey: {name: %[1]s, namespace: default}}]}]
`, name))
	eventually(t, "the doctor has a command for each cluster", within, func(ctx context.Context) error {
		fixes, err := g.grants(ctx, name)
		if err == nil && len(fixes) < 3 {
			err = fmt.Errorf("commands %q", fixes)
		}
		return err
	})
	t.Cleanup(func() {
		for _, c := range g.Clusters[:3] {
			kubectl(t, c, "delete", "clusterrole", "--ignore-not-found", "roster-write-leases.coordination.k8s.io", "roster-read-leases.coordination.k8s.io")
		}
	})
	eventually(t, "its commands fix it", afterFault, func(ctx context.Context) error {
		fixes, err := g.grants(ctx, name)
		if err != nil {
			return err
		}
		for _, fix := range fixes {
			if out, err := g.shell(ctx, fix); err != nil {
				return fmt.Errorf("%s: %w: %s", fix, err, out)
			}
		}
		return g.asks(0, doctor(), "nothing found")(ctx)
	})
}

// grants are the commands that the doctor has about the rights of a rule.
func (g *group) grants(ctx context.Context, rule string) ([]string, error) {
	var out struct {
		Findings []struct{ Check, Message, Fix string }
	}
	a := g.ask(ctx, doctor("-o", "json")...)
	if err := json.Unmarshal([]byte(a.stdout()), &out); err != nil {
		return nil, fmt.Errorf("%w: %s", err, a.out)
	}
	var fixes []string
	for _, f := range out.Findings {
		if f.Check == "rbac" && strings.Contains(f.Message, rule) && strings.Contains(f.Fix, "<<<") && !slices.Contains(fixes, f.Fix) {
			fixes = append(fixes, f.Fix)
		}
	}
	return fixes, nil
}

// shell does what a person does who pastes a command.
func (g *group) shell(ctx context.Context, command string) (string, error) {
	bin, err := harness.FindBinaries()
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, "bash", "-c", command)
	cmd.Env = []string{"PATH=" + filepath.Dir(bin.Kubectl) + ":" + os.Getenv("PATH"), "KUBECONFIG=" + g.Kubeconfig, "HOME=" + g.Dir}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// locked is a buffer that one goroutine writes and another reads.
type locked struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *locked) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *locked) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// With --log-format json every line of an agent is one, also those of the client libraries and of memberlist, and
// what /metrics shows is what docs/metrics.md lists.
func TestLogsAndMetrics(t *testing.T) {
	g := joined(t)
	restart := func(flags ...string) {
		t.Helper()
		if err := g.gamma.StopAgent(); err != nil {
			t.Fatal(err)
		}
		if err := g.gamma.StartAgent(lasting(t), flags...); err != nil {
			t.Fatal(err)
		}
	}
	if err := g.gamma.StopAgent(); err != nil {
		t.Fatal(err)
	}
	before := len(g.gamma.Log())
	t.Cleanup(func() {
		restart()
		g.eventuallyWhole(t, afterFault)
	})
	restart("--log-format", "json", "--log-level", "debug", "--pprof")
	g.eventuallyWhole(t, afterFault)
	eventually(t, "memberlist has said something", afterFault, func(context.Context) error {
		if !strings.Contains(g.gamma.Log()[before:], `"msg":"memberlist"`) {
			return errors.New("not yet")
		}
		return nil
	})
	if _, err := g.gamma.AgentHTTP(t.Context(), "/debug/pprof/goroutine?debug=1"); err != nil {
		t.Error(err)
	}
	listed, err := os.ReadFile("../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	var page string
	eventually(t, "/metrics has all", within, func(ctx context.Context) (err error) {
		if page, err = g.gamma.AgentHTTP(ctx, "/metrics"); err != nil {
			return err
		}
		for _, sample := range []string{
			`roster_mesh_members{state="Alive"} 2`, `roster_peers{access="Connected"} 2`, "roster_ready 1", `roster_credential_expiry_timestamp_seconds{credential="own"} `,
			`roster_credential_expiry_timestamp_seconds{credential="peer"} `, `roster_replica_missing_entries 0`, `roster_import_oldest_seconds 0`,
		} {
			if !strings.Contains(page, "\n"+sample) {
				return fmt.Errorf("no line %s:\n%s", sample, page)
			}
		}
		return nil
	})
	for line := range strings.Lines(page) {
		name, found := strings.CutPrefix(line, "# HELP roster_")
		if name, _, _ = strings.Cut(name, " "); found && !strings.Contains(string(listed), "`roster_"+name+"`") {
			t.Errorf("docs/metrics.md does not list roster_%s", name)
		}
	}
	if err := g.gamma.StopAgent(); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(g.gamma.Log()[before:]) {
		var keys struct {
			Time       time.Time
			Level, Msg string
		}
		if err := json.Unmarshal([]byte(line), &keys); err != nil || keys.Time.IsZero() || keys.Level == "" || keys.Msg == "" {
			t.Errorf("not a line with time, level and msg (%v): %s", err, line)
		}
	}
}
