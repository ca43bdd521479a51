// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"bytes"
	"strings"
	"testing"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/documents"
	"github.com/roster-mesh/roster/syncrules/consent"
)

// FuzzLint: no file makes lint panic, each finding has a line of the file, and nothing that is printed for sources lets the
// others read a private key.
func FuzzLint(f *testing.F) {
	f.Add([]byte("apiVersion: clusterregistry.k8s.cisco.com/v1alpha1\nkind: ResourceSyncRule\nmetadata: {name: x}\nspec:\n  rules: [{match: [{}]}]\n---\na: &a [*a]\n--- # x\n- 1\n"))
	f.Add([]byte(`{"kind":"List","items":[{"kind":"ResourceSyncRule","spec":{"rules":{"a":1}}},3]}`))
	for _, match := range []string{"{match: [{namespaces: [a, n-private, far-private]}]}", "{match: [{labels: [{matchLabels: {a: b}}]}]}", "{}"} {
		f.Add([]byte("apiVersion: clusterregistry.k8s.cisco.com/v1alpha1\nkind: ResourceSyncRule\nmetadata: {name: x}\nspec:\n  groupVersionKind: {version: v1, kind: Secret}\n  rules: [" + match + "]\n"))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		docs, err := documents.Split("f", data)
		if err != nil {
			return
		}
		checked := Check(docs, consent.Policy{Namespace: "n"})
		for _, r := range checked.Rules {
			if strings.Contains(r.Reader, "[secrets") && (strings.Contains(r.Reader, "ClusterRole") || strings.Contains(r.Reader+r.Writer, `-private"}`+"\n")) {
				t.Fatalf("for %q: %s%s", data, r.Reader, r.Writer)
			}
		}
		for _, found := range checked.Findings {
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
