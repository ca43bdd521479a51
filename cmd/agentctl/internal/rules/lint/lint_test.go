// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"bytes"
	"testing"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/documents"
	"github.com/roster-mesh/roster/syncrules/consent"
)

// FuzzLint: no file makes lint panic, and each finding has a line of the file.
func FuzzLint(f *testing.F) {
	f.Add([]byte("apiVersion: clusterregistry.k8s.cisco.com/v1alpha1\nkind: ResourceSyncRule\nmetadata: {name: x}\nspec:\n  rules: [{match: [{}]}]\n---\na: &a [*a]\n--- # x\n- 1\n"))
	f.Add([]byte(`{"kind":"List","items":[{"kind":"ResourceSyncRule","spec":{"rules":{"a":1}}},3]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		docs, err := documents.Split("f", data)
		if err != nil {
			return
		}
		for _, found := range Check(docs, consent.Policy{Namespace: "n"}).Findings {
			if found.Line < 1 || found.Line > lineEnds(data)+2 {
				t.Fatalf("line %d of %q: %s", found.Line, data, found.Message)
			}
		}
	})
}

// lineEnds counts the ends of lines that the YAML reader knows: beside newline and carriage return there are three
// that hardly any file has, and that it counts once more than some editors.
func lineEnds(data []byte) int {
	ends := 0
	for _, end := range []string{"\n", "\r", "\u0085", "\u2028", "\u2029"} {
		ends += bytes.Count(data, []byte(end))
	}
	return ends
}
