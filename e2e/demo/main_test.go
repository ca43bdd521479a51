// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
	"time"

	"github.com/roster-mesh/roster/e2e/harness"
)

func TestUsage(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"--clusters", "2"}, {"--clusters", "25"}, {"--frob"}, {"extra"}} {
		var out, err strings.Builder
		if code := run(t.Context(), args, &out, &err); code != exitUsage || err.Len() == 0 {
			t.Errorf("%v: status %d, %q", args, code, err.String())
		}
	}
}

func TestPrinter(t *testing.T) {
	t.Parallel()
	tell := func(colour bool) string {
		var out strings.Builder
		p := &printer{w: &out, colour: colour}
		p.step("One")
		p.command("kubectl apply -f -", "a: 1\nb: 2\n")
		p.output("done\n")
		p.saw(1234*time.Millisecond, "it is there")
		p.saw(12*time.Microsecond, "at once")
		return out.String()
	}
	plain := tell(false)
	want := `
1. One -------------------------------------------------------------------------------------
   $ kubectl apply -f - <<'END'
a: 1
b: 2
END
     done
   ok    1.2 s it is there
   ok     0 ms at once
`
	if plain != want {
		t.Errorf("got\n%s\nwant\n%s", plain, want)
	}
	if strings.Contains(plain, "\x1b") || !strings.Contains(tell(true), "\x1b[1m") {
		t.Error("colours are for terminals, and only for them")
	}
}

func TestShell(t *testing.T) {
	t.Parallel()
	if got := shell("kubectl", []string{"patch", "-p", `{"a":1}`}); got != `kubectl patch -p '{"a":1}'` {
		t.Errorf("got %s", got)
	}
}

func TestAgentRun(t *testing.T) {
	t.Parallel()
	long := "/" + strings.Repeat("d", width/2)
	got := agentRun([]string{"--local", "embedded", "--cluster-name", "alpha", "--data-dir", long, "--config", long})
	want := "agent run --local embedded --cluster-name alpha \\\n    --data-dir " + long + " \\\n    --config " + long
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// PATH leads to kubectl only when it does not anyway.
func TestSetPath(t *testing.T) {
	t.Parallel()
	for kubectl, want := range map[string]string{
		"/roster/e2e/testbed/bin/kubectl": "export PATH=/roster/bin:/roster/e2e/testbed/bin:$PATH",
		"/usr/bin/kubectl":                "export PATH=/roster/bin:$PATH",
	} {
		s := &story{bin: harness.Binaries{Root: "/roster", Kubectl: kubectl}}
		if got := s.setPath(); got != want {
			t.Errorf("with %s: %s", kubectl, got)
		}
	}
}

func TestAnd(t *testing.T) {
	t.Parallel()
	for want, names := range map[string][]string{
		"alpha": {"alpha"}, "alpha and beta": {"alpha", "beta"}, "alpha, beta and gamma": {"alpha", "beta", "gamma"},
	} {
		if got := and(names); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
