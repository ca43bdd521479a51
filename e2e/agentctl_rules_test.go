// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/roster-mesh/roster/e2e/harness"
)

// answer is what agentctl printed, and its exit code.
type answer struct {
	out  string
	code int
}

func (g *group) ask(ctx context.Context, args ...string) answer {
	out, err := g.Agentctl(ctx, args...)
	a := answer{out: out}
	var exit *exec.ExitError
	switch {
	case err == nil:
	case errors.As(err, &exit):
		a.code = exit.ExitCode()
		a.out += err.Error()
	default:
		a.code, a.out = -1, err.Error()
	}
	return a
}

// expect fails unless agentctl ends with the code and prints all of the texts.
func (g *group) expect(t *testing.T, code int, args []string, texts ...string) string {
	t.Helper()
	a := g.ask(t.Context(), args...)
	if a.code != code {
		t.Errorf("agentctl %s: exit code %d, not %d", strings.Join(args, " "), a.code, code)
	}
	for _, text := range texts {
		if !strings.Contains(a.out, text) {
			t.Errorf("agentctl %s does not print %q", strings.Join(args, " "), text)
		}
	}
	if t.Failed() {
		t.Fatalf("agentctl %s:\n%s", strings.Join(args, " "), a.out)
	}
	return a.out
}

func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// A user asks why something is copied or not, before and after a rule is applied. The peers are read with the
// credentials that the agent of alpha holds. What the Secret holds is never printed.
func TestAgentctlRules(t *testing.T) {
	g := joined(t)
	name := fmt.Sprintf("case-%d", time.Now().UnixNano())
	g.cleanUp(t, name)
	var printed strings.Builder
	say := func(code int, args []string, texts ...string) {
		t.Helper()
		printed.WriteString(g.expect(t, code, args, texts...))
	}
	const value = "correct-horse-battery"
	putSecret(t, g.gamma, name, value)
	manifest := rule(name, name)

	bad := strings.Replace(manifest, "  rules:\n", "  rulez: []\n  rules:\n  - match:\n    - {}\n", 1)
	say(1, []string{"rules", "lint", write(t, "bad.yaml", bad)},
		"bad.yaml:9: error: spec.rulez: Forbidden: no such field", "bad.yaml:12: error: spec.rules[0].match[0]: Required value")
	good := write(t, "good.yaml", manifest)
	say(0, []string{"rules", "lint", good}, "1 rule without errors")

	// Not applied yet: the API server of alpha says on trial what the copy would be.
	say(0, []string{"rules", "explain", "-f", good, "--context", "alpha"},
		"from gamma: yes, selects 1 object there",
		fmt.Sprintf("Secret %s/%s in alpha: would be created", harness.Namespace, name),
		"owner: gamma", fmt.Sprintf("+  v: <%d bytes, hash ", len(value)))
	if err := noSecret(g.alpha, name)(t.Context()); err != nil {
		t.Fatalf("a trial wrote: %v", err)
	}

	apply(t, g.alpha, manifest)
	g.eventuallyCopies(t, name, value)
	eventually(t, "agentctl says that the rule is ready", within, func(ctx context.Context) error {
		if a := g.ask(ctx, "rules", "list", name, "--context", "alpha"); a.code != 0 {
			return errors.New(a.out)
		}
		return nil
	})
	say(0, []string{"rules", "explain", name, "--context", "alpha"},
		"the agent here says: Ready=True (Synced)", "from beta: yes, selects 0 objects there", "from gamma: yes, selects 1 object there", "copies: 1 in sync")
	say(0, []string{"rules", "explain", "secret", name, "-n", harness.Namespace, "--context", "alpha", "--peer-context", "beta=beta"},
		"in alpha (this cluster): a copy, owned by gamma, made by rule "+name, "in gamma: an object of its own",
		fmt.Sprintf("Secret %s/%s in beta: in sync", harness.Namespace, name), "owner: gamma, clusterID ")

	// An object that the rule does not select: the field that says no.
	other := name + "-x"
	putSecret(t, g.gamma, other, value)
	t.Cleanup(func() { deleteSecret(t, g.gamma, other) })
	say(4, []string{"rules", "explain", "secrets/" + other, "-n", harness.Namespace, "--context", "alpha"},
		"spec.rules[0].match[0].objectKey.name: "+name+": object has "+other)

	// An edit of the rule that nobody has applied, as a difference with what is there.
	edited := write(t, "edited.yaml", manifest+"    mutations: {labels: {add: {stage: prod}}}\n")
	say(0, []string{"rules", "explain", "-f", edited, "--context", "alpha"}, "in alpha: would be updated", "+    stage: prod")
	say(0, []string{"rules", "explain", "-f", edited, "--context", "alpha", "-o", "json"}, `"diffBy": "server"`, `"answer": "synced"`)

	for _, secret := range []string{value, base64.StdEncoding.EncodeToString([]byte(value))} {
		if strings.Contains(printed.String(), secret) {
			t.Errorf("agentctl printed what the Secret holds:\n%s", printed.String())
		}
	}
}
