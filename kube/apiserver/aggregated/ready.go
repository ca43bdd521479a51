// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package aggregated

import (
	"context"
	"errors"
	"net/http"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/roster-mesh/roster/kube/apiserver/registry/rights"
	"github.com/roster-mesh/roster/kube/apiserver/waiting"
)

// readyPoll is how often a start looks whether it is ready.
const readyPoll = 50 * time.Millisecond

// rolesKnown is a check of readiness: without the roles, lists would be empty.
type rolesKnown struct{ roles *rights.Watched }

// Name implements healthz.HealthChecker.
func (rolesKnown) Name() string { return "roster-roles" }

// Check implements healthz.HealthChecker.
func (c rolesKnown) Check(*http.Request) error {
	if !c.roles.HasSynced() {
		return errors.New("the ClusterRoles and ClusterRoleBindings are not known yet")
	}
	return nil
}

// awaitReady returns when the server is ready, and false when ctx ends before.
func awaitReady(ctx context.Context, loopback *rest.Config) bool {
	client, err := kubernetes.NewForConfig(loopback)
	if err != nil {
		return false
	}
	for ctx.Err() == nil {
		if _, err := client.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(ctx); err == nil {
			return true
		}
		waiting.Sleep(ctx, readyPoll)
	}
	return false
}
