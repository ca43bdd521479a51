// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package confirm

import (
	"strings"
	"testing"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/apitest"
	"github.com/roster-mesh/roster/syncrules"
)

// Only what the agent still asks for is confirmed.
func TestConfirmDeletions(t *testing.T) {
	t.Parallel()
	for condition, want := range map[string]string{
		`{type: Ready, status: "False", reason: DeletionGuard, message: "agentctl guard confirm r --deletions=7"}`: "",
		`{type: Ready, status: "False", reason: DeletionGuard, message: "agentctl guard confirm r --deletions=9"}`: "DeletionGuard: agentctl guard confirm r --deletions=9; nothing is confirmed",
		`{type: Ready, status: "True", reason: Synced, message: all}`:                                              "Synced: all; nothing is confirmed",
	} {
		u := apitest.Parse(t, "{apiVersion: clusterregistry.k8s.cisco.com/v1alpha1, kind: ResourceSyncRule, metadata: {name: r}, status: {conditions: ["+condition+"]}}")
		err := confirmDeletions(u, 7)
		if got := u.GetAnnotations()[syncrules.AnnotationConfirmDeletions]; want == "" && (err != nil || got != "7") || want != "" && (err == nil || !strings.Contains(err.Error(), want) || got != "") {
			t.Errorf("%s: confirmed %q, error %v", condition, got, err)
		}
	}
}
