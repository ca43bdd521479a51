// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"testing"

	"github.com/roster-mesh/roster/agent/pinned"
	"github.com/roster-mesh/roster/e2e/harness"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// TestLostRecord: the record of pins is lost, and the copy of the other cluster does not say that anybody here admitted it, as when an agent of an
// earlier version was killed after a swap. The copy says what to do, and that makes both members again.
func TestLostRecord(t *testing.T) {
	g := pair(t)
	if err := g.beta.StopAgent(); err != nil {
		t.Fatal(err)
	}
	kubectl(t, g.beta, "-n", v1alpha1.PrivateNamespace(harness.Namespace), "delete", "secret", pinned.Secret)
	kubectl(t, g.beta, "patch", "cluster", "alpha", "--subresource=status", "--type=merge", "-p", `{"status":{"admittedBy":null}}`)
	if err := g.beta.StartAgent(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the copy says what to do", afterFault, conditionSays(g.beta, "alpha", v1alpha1.ConditionMember, "delete the object (kubectl delete cluster), and swap again (agentctl join)"))
	kubectl(t, g.beta, "delete", "cluster", "alpha")
	t.Log(agentctl(t, g, "join", "--context", "alpha", "--peer-context", "beta"))
	eventually(t, "both are members", afterFault, listEachOther(g.alpha, g.beta))
}
