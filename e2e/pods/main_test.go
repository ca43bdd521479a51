// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"testing"

	"github.com/roster-mesh/roster/e2e/harness"
	"github.com/roster-mesh/roster/e2e/pods/node"
)

func TestMain(m *testing.M) {
	node.Init()
	hog()
	isolated, err := harness.InNetworkNamespace()
	if err != nil {
		fmt.Fprintln(os.Stderr, "pods:", err)
		os.Exit(1)
	}
	shared.isolated = isolated
	// A signal ends the tests by their context, and then what they started.
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	shared.ctx = ctx //nolint:fatcontext // Once, before all tests.
	code := m.Run()
	interrupted := ctx.Err() != nil
	stop()
	if err := shared.close(code == 0 || interrupted); err != nil {
		fmt.Fprintln(os.Stderr, "pods: end the clusters:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}
