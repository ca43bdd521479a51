// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package join

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestSyncedOnceWritten: the agent's answer to what was written counts, also when it has changed the object since.
func TestSyncedOnceWritten(t *testing.T) {
	t.Parallel()
	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "clusterregistry.k8s.cisco.com/v1alpha1", "kind": "Cluster", "metadata": map[string]any{"name": "beta", "generation": int64(3)},
		"status": map[string]any{"conditions": []any{map[string]any{"type": "ClustersSynced", "status": "True", "reason": "Synced", "observedGeneration": int64(2)}}},
	}}
	for written, want := range map[int64]bool{1: true, 2: true, 3: false} {
		if got := synced(u, written).ok; got != want {
			t.Errorf("written at generation %d, observed at 2, now 3: synced is %v, want %v", written, got, want)
		}
	}
}

func TestDedupe(t *testing.T) {
	t.Parallel()
	got := dedupe([]string{
		"Ready=False (X): no route", "Member=Unknown (Unknown): not met", "ClustersSynced=False (X): no route", "no route", "other",
	})
	want := []string{"Ready=False (X): no route", "Member=Unknown (Unknown): not met", "other"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
