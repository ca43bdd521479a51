// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package join

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// TestSignsLeave: an agent that runs as a member tells the others that it leaves, so nobody has to remove its old key. That of a
// cluster that was removed, or has lost its key, cannot.
func TestSignsLeave(t *testing.T) {
	t.Parallel()
	for reason, want := range map[string]bool{"Running": true, v1alpha1.MemberRemoved: false, "Problem": false, "": false} {
		own := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Cluster"}}
		if reason != "" {
			status := map[bool]string{true: "True", false: "False"}[want]
			condition := map[string]any{"type": v1alpha1.ConditionReady, "status": status, "reason": reason}
			own.Object["status"] = map[string]any{"conditions": []any{condition}}
		}
		if got := signsLeave(own); got != want {
			t.Errorf("%q: %t", reason, got)
		}
	}
}
