// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/roster-mesh/roster/e2e/harness"
)

// buildProfiled builds the agent that can be profiled, e2e/bench/profiled.
func buildProfiled(ctx context.Context, root, dir string) (string, error) {
	path := filepath.Join(dir, "agent")
	cmd := exec.CommandContext(ctx, "go", "build", "-o", path, "./e2e/bench/profiled")
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the profiled agent: %w\n%s", err, out)
	}
	return path, nil
}

// profiled takes a part and, if that is asked for, profiles of the agents of the first and the last cluster
// meanwhile.
func (b *bed) profiled(ctx context.Context, p part) error {
	if b.s.profile == "" {
		return p.run(ctx, b)
	}
	if err := os.MkdirAll(b.s.profile, 0o755); err != nil {
		return err
	}
	watched := []*harness.Cluster{b.first(), b.source()}
	for _, c := range watched {
		if err := syscall.Kill(c.AgentPID(), syscall.SIGUSR1); err != nil {
			return err
		}
	}
	errs := []error{p.run(ctx, b)}
	for _, c := range watched {
		errs = append(errs, syscall.Kill(c.AgentPID(), syscall.SIGUSR2))
	}
	errs = append(errs, pause(ctx, time.Second))
	for _, c := range watched {
		for _, kind := range []string{"cpu", "heap", "allocs"} {
			from := filepath.Join(c.Dir(), "data", kind+".pprof")
			to := filepath.Join(b.s.profile, fmt.Sprintf("%d-%s-%s-%s.pprof", b.n, p.name, c.Name, kind))
			errs = append(errs, os.Rename(from, to))
		}
	}
	return errors.Join(errs...)
}
