// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/roster-mesh/roster/e2e/harness"
)

// within is how long anything may take that needs some requests, on a busy machine.
const within = time.Minute

func TestMain(m *testing.M) {
	if _, err := harness.InNetworkNamespace(); err != nil {
		fmt.Fprintln(os.Stderr, "e2e/chart:", err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// cluster is a control plane with the chart installed and no agent.
func cluster(t *testing.T) *harness.Cluster {
	t.Helper()
	fleet, err := harness.Up(t.Context(), harness.Options{Binaries: binaries(t), Dir: t.TempDir(), Names: []string{"alpha"}, Log: t.Logf})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := fleet.Close(); err != nil {
			t.Error(err)
		}
	})
	c := fleet.Clusters[0]
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the agent said:\n%s", c.LogTail(30))
		}
	})
	if err := c.Install(t.Context()); err != nil {
		t.Fatal(err)
	}
	return c
}

func eventually(t *testing.T, what string, cond func(context.Context) error) {
	t.Helper()
	took, err := harness.Wait(t.Context(), what, within, cond)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%7.3f s  %s", took.Seconds(), what)
}

func kubectl(t *testing.T, c *harness.Cluster, args ...string) string {
	t.Helper()
	out, err := c.Kubectl(t.Context(), args...)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(out)
}

// notReady is the condition that /readyz answers with a line that has each of these words.
func notReady(c *harness.Cluster, words ...string) func(context.Context) error {
	return func(ctx context.Context) error {
		if err := c.AgentAlive(ctx); err != nil {
			return err
		}
		_, err := c.AgentHTTP(ctx, "/readyz")
		if err == nil {
			return errors.New("it is ready")
		}
		for _, word := range words {
			if !strings.Contains(err.Error(), word) {
				return fmt.Errorf("no %q: %w", word, err)
			}
		}
		return nil
	}
}
