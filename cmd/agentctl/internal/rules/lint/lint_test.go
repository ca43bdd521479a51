// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"bytes"
	"testing"

	"github.com/roster-mesh/roster/syncrules"
)

// FuzzLint: no file makes lint panic, and each finding has a line of the file.
func FuzzLint(f *testing.F) {
	f.Add([]byte("apiVersion: clusterregistry.k8s.cisco.com/v1alpha1\nkind: ResourceSyncRule\nmetadata: {name: x}\nspec:\n  rules: [{match: [{}]}]\n---\na: &a [*a]\n--- # x\n- 1\n"))
	f.Add([]byte(`{"kind":"List","items":[{"kind":"ResourceSyncRule","spec":{"rules":{"a":1}}},3]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		docs, err := splitDocuments("f", data)
		if err != nil {
			return
		}
		for _, found := range Check(docs, syncrules.Consent{Namespace: "n"}).Findings {
			if found.Line < 1 || found.Line > bytes.Count(data, []byte("\n"))+2 {
				t.Fatalf("line %d of %q: %s", found.Line, data, found.Message)
			}
		}
	})
}
