// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package syncrules

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

const origin = "aaaaaaaa-0000-0000-0000-000000000000"

// TestGolden runs the cases of testdata: rule.yaml and source.yaml, and in want what comes of them: the errors
// of the rule, "no match", or the scopes, the copy, and what consent says of it. ROSTER_UPDATE=1 writes want anew.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			parts := map[string][]byte{}
			for _, f := range archive.Files {
				parts[f.Name] = f.Data
			}
			got := outcomeOf(t, parts["rule.yaml"], parts["source.yaml"])
			if os.Getenv("ROSTER_UPDATE") != "" {
				kept := archive.Files[:0]
				for _, f := range archive.Files {
					if f.Name != "want" {
						kept = append(kept, f)
					}
				}
				archive.Files = append(kept, txtar.File{Name: "want", Data: []byte(got)})
				if err := os.WriteFile(file, txtar.Format(archive), 0o600); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(string(parts["want"]), got); diff != "" {
				t.Errorf("want (-), got (+):\n%s", diff)
			}
		})
	}
}

func outcomeOf(t *testing.T, ruleYAML, sourceYAML []byte) string {
	t.Helper()
	var api v1alpha1.ResourceSyncRule
	if err := yaml.UnmarshalStrict(ruleYAML, &api); err != nil {
		t.Fatalf("rule.yaml: %v", err)
	}
	rule, err := Compile(&api)
	if err != nil {
		return strings.ReplaceAll(strings.Trim(err.Error(), "[]"), ", spec.", "\nspec.") + "\n"
	}
	var out strings.Builder
	for _, s := range rule.Scopes() {
		fmt.Fprintf(&out, "# watch namespace=%q labels=%q fields=%q\n", s.Namespace, s.LabelSelector, s.FieldSelector)
	}
	if rule.Moves() {
		for _, s := range rule.TargetScopes() {
			fmt.Fprintf(&out, "# copies in kind=%s namespace=%q\n", formatKind(s.GVK), s.Namespace)
		}
	}
	source := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(sourceYAML, &source.Object); err != nil {
		t.Fatalf("source.yaml: %v", err)
	}
	if !rule.Match(source) {
		return out.String() + "no match\n"
	}
	in := Input{Owner: origin, Namespaced: namespaced}
	desired, err := Render([]*Rule{rule}, source, in)
	if err != nil {
		return out.String() + err.Error() + "\n"
	}
	if place, err := rule.Target(source, in); err != nil || place != PlaceOf(desired) {
		t.Errorf("Target is %v (%v), the copy is in %v", place, err, PlaceOf(desired))
	}
	if place := Source(desired); place != PlaceOf(source) {
		t.Errorf("Source is %v", place)
	}
	if err := (Consent{Namespace: "cluster-registry"}).Refuse(desired); err != nil {
		return out.String() + err.Error() + "\n"
	}
	text, err := yaml.Marshal(desired.Object)
	if err != nil {
		t.Fatal(err)
	}
	return out.String() + string(text)
}

// namespaced is what the API server of the cases knows: kinds named Cluster… and Namespace are in no namespace.
func namespaced(gvk schema.GroupVersionKind) (bool, error) {
	if gvk.Kind == "Unknown" {
		return false, errors.New("no such kind")
	}
	return gvk.Kind != "Namespace" && !strings.HasPrefix(gvk.Kind, "Cluster"), nil
}
