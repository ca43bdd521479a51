// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package profiles

import (
	"context"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roster-mesh/roster/e2e/harness"
)

// lose: the agent of beta is lost, and of gamma the API server as well.
func (r *room) lose() {
	r.Helper()
	r.must("", r.gamma.StopAPIServer(r.Context()))
	r.must("", errors.Join(r.beta.KillAgent(), r.gamma.KillAgent()))
}

// lost: the profiles of beta and gamma say what was lost, and then that it is back.
func (r *room) lost() {
	r.Helper()
	r.notHealthy("beta", "Unknown", "AgentUnreachable")
	r.notHealthy("gamma", "False", "APIUnreachable")
	r.must("", r.gamma.StartAPIServer(r.Context()))
	r.must("", errors.Join(r.beta.StartAgent(r.Context()), r.gamma.StartAgent(r.Context())))
	r.eventually("the profiles", r.whole)
}

// notHealthy waits until a cluster is not ready by its Cluster object, and its profile says why. That is a minute after its agent
// has failed for the mesh.
func (r *room) notHealthy(name, status, reason string) {
	r.Helper()
	clusters := r.alpha.Dynamic.Resource(harness.Clusters())
	_, err := harness.Wait(r.Context(), "ControlPlaneHealthy of "+name+" is "+status, 4*within, func(ctx context.Context) error {
		u, err := clusters.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		ready, healthy := harness.Condition(u, "Ready"), harness.Condition(r.profile(name), "ControlPlaneHealthy")
		if ready["status"] != "False" || ready["reason"] != reason || healthy["status"] != status || healthy["reason"] != reason {
			return fmt.Errorf("Ready is %v, ControlPlaneHealthy is %v", ready, healthy)
		}
		return nil
	})
	r.must("", err)
}

// whole returns nil when every cluster has a profile that is complete.
func (r *room) whole(ctx context.Context) error {
	for _, c := range r.clusters {
		if err := r.complete(ctx, c); err != nil {
			return fmt.Errorf("profile of %s: %w", c.Name, err)
		}
	}
	return nil
}

// listed returns nil when every cluster has a profile, and that of the API server's own is complete.
func (r *room) listed(ctx context.Context) error {
	for _, c := range r.clusters {
		if _, err := r.profiles().Get(ctx, c.Name, metav1.GetOptions{}); err != nil {
			return err
		}
	}
	return r.complete(ctx, r.alpha)
}
