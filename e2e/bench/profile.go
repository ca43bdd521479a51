// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sync/errgroup"

	"github.com/roster-mesh/roster/e2e/harness"
)

// envProfiles has agents serve profiles, by their flag --pprof. The harness passes it on.
const envProfiles = "ROSTER_PPROF"

// profileSeconds is how much of a part a CPU profile is about: it has to be said before.
const profileSeconds = 20

// profiled takes a part and, if that is asked for, profiles of the agents of the first and the last cluster: what they did in the first
// seconds, and what they held and had allocated in the end.
func (b *bed) profiled(ctx context.Context, p part) error {
	if b.s.profile == "" {
		return p.run(ctx, b)
	}
	if err := os.MkdirAll(b.s.profile, 0o755); err != nil {
		return err
	}
	var all errgroup.Group
	take := func(kind, path string) {
		for _, c := range []*harness.Cluster{b.first(), b.source()} {
			all.Go(func() error {
				data, err := c.AgentHTTP(ctx, "/debug/pprof/"+path)
				if err != nil {
					return fmt.Errorf("profile of %s: %w", c.Name, err)
				}
				return os.WriteFile(filepath.Join(b.s.profile, fmt.Sprintf("%d-%s-%s-%s.pprof", b.n, p.name, c.Name, kind)), []byte(data), 0o644)
			})
		}
	}
	take("cpu", fmt.Sprintf("profile?seconds=%d", profileSeconds))
	err := p.run(ctx, b)
	take("heap", "heap?gc=1")
	take("allocs", "allocs")
	return errors.Join(err, all.Wait())
}
