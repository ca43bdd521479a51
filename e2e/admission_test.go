// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The manifests that kube/api/v1alpha1 says are accepted or refused, in a real API server with the chart's
// CRDs. Of several documents in a file, all but the last prepare.
func TestAdmission(t *testing.T) {
	g := apart(t)
	root := filepath.Join("..", "kube", "api", "v1alpha1", "testdata", "admission")
	for _, verdict := range []string{"accept", "refuse"} {
		files, err := filepath.Glob(filepath.Join(root, verdict, "*.yaml"))
		if err != nil || len(files) == 0 {
			t.Fatalf("no manifests in %s: %v", verdict, err)
		}
		for _, file := range files {
			t.Run(verdict+"/"+strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
				data, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				admit(t, g, string(data), verdict == "accept")
			})
		}
	}
}

func admit(t *testing.T, g *group, file string, accept bool) {
	t.Helper()
	documents := strings.Split(file, "\n---\n")
	for i, document := range documents {
		out, err := g.delta.Apply(t.Context(), document)
		last := i == len(documents)-1
		if err == nil {
			t.Cleanup(func() { kubectl(t, g.delta, "delete", "--ignore-not-found", strings.Fields(out)[0]) })
		}
		switch {
		case err != nil && (accept || !last):
			t.Fatalf("document %d is refused: %v", i+1, err)
		case err == nil && !accept && last:
			t.Fatalf("it is accepted: %s", out)
		case err != nil:
			first, _, _ := strings.Cut(file, "\n")
			want, found := strings.CutPrefix(first, "# want: ")
			if !found {
				t.Fatalf("the file's first line is %q, not what is wanted", first)
			}
			if !strings.Contains(err.Error(), want) {
				t.Errorf("it is refused with %v, which does not say %q", err, want)
			}
		}
	}
}
