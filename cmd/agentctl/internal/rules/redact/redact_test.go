// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package redact

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/apitest"
)

// An object without Secrets is shown as it is.
func TestDiffShowsTheRest(t *testing.T) {
	t.Parallel()
	there := apitest.Parse(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: x, uid: u, resourceVersion: '4', managedFields: [{}]}, data: {a: one}}")
	wanted := apitest.Parse(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: x, uid: v}, data: {a: two}}")
	got, err := New().Diff(there, wanted)
	if err != nil {
		t.Fatal(err)
	}
	want := "--- there\n+++ wanted\n@@ -1,6 +1,6 @@\n apiVersion: v1\n data:\n-  a: one\n+  a: two\n kind: ConfigMap\n metadata:\n   name: x\n"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if got, err := New().Diff(there, there); err != nil || got != "" {
		t.Errorf("no difference is shown as %q, %v", got, err)
	}
}
