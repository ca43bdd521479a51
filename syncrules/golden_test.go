// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package syncrules

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/syncrules/consent"
)

const origin = "aaaaaaaa-0000-0000-0000-000000000000"

// TestGolden runs the cases of testdata. Each has rule.yaml (and rule2.yaml, for the same copy) and source.yaml; local.yaml is
// what is in the place of the copy. want is the result: the errors of the rule, "no match", or the scopes, the copy, and
// whether it needs consent; beside a local.yaml, what is done, and what is written over it. ROSTER_UPDATE=1 updates want.
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
			got := outcomeOf(t, archive.Files)
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
			want := archive.Files[len(archive.Files)-1]
			if diff := cmp.Diff(string(want.Data), got); diff != "" {
				t.Errorf("want (-), got (+):\n%s", diff)
			}
		})
	}
}

// outcomeOf renders together what the rules of a case make of its source.
func outcomeOf(t *testing.T, files []txtar.File) string {
	t.Helper()
	var out strings.Builder
	var rules []*Rule
	source := &unstructured.Unstructured{}
	var local *unstructured.Unstructured
	for _, f := range files {
		switch {
		case f.Name == "source.yaml":
			source = object(t, string(f.Data))
		case f.Name == "local.yaml":
			local = object(t, string(f.Data))
		case strings.HasPrefix(f.Name, "rule"):
			var api v1alpha1.ResourceSyncRule
			if err := yaml.UnmarshalStrict(f.Data, &api); err != nil {
				t.Fatalf("%s: %v", f.Name, err)
			}
			rule, err := Compile(&api)
			if err != nil {
				return strings.ReplaceAll(strings.Trim(err.Error(), "[]"), ", spec.", "\nspec.") + "\n"
			}
			describe(&out, rule)
			local := cluster(self, "tokyo")
			local.Status.Version = "v1.36.3-vendor.1"
			if answer, v := rule.ExplainTargets(local); rule.HasTargets() {
				fmt.Fprintf(&out, "target: %s (%s)\n", [...]string{"unknown", "no", "yes"}[answer], v)
			}
			rules = append(rules, rule)
		}
	}
	rules = slices.DeleteFunc(rules, func(r *Rule) bool { return !r.Match(source) })
	if len(rules) == 0 {
		return out.String() + "no match\n"
	}
	return out.String() + copyOf(t, rules, source, local)
}

// copyOf is the copy that rules make of their source, in the place of a local object if that is not nil; or why there is none.
func copyOf(t *testing.T, rules []*Rule, source, local *unstructured.Unstructured) string {
	t.Helper()
	in := Input{Owner: origin, Namespaced: namespaced, Cluster: cluster(origin, "paris"), LocalCluster: cluster(self, "tokyo"), Into: "team-a"}
	before, policy := source.DeepCopy(), consent.Policy{Namespace: "cluster-registry"}
	if at, err := rules[0].Target(source, in); err == nil {
		if err := policy.RefuseSource(source, at.GroupKind()); err != nil {
			return err.Error() + "\n"
		}
	}
	desired, err := Render(rules, source, in)
	if err != nil {
		return err.Error() + "\n"
	}
	if !equal(source, before) {
		t.Error("the source was changed")
	}
	for _, r := range rules {
		if place, err := r.Target(source, in); err != nil || place != PlaceOf(desired) {
			t.Errorf("Target is %v (%v), the copy is in %v", place, err, PlaceOf(desired))
		}
	}
	if place := Source(desired); place != PlaceOf(source) {
		t.Errorf("Source is %v", place)
	}
	if err := policy.Refuse(desired); err != nil {
		return err.Error() + "\n"
	}
	decision := ""
	if local != nil {
		d := Plan(Facts{Self: self, Local: local, Claims: []Claim{{Origin: origin, Standing: Offered, Desired: desired, Adopters: Adopters(rules)}}})
		decision = fmt.Sprintf("# %s: %s\n", d.Action, d.Reason)
		if desired = d.Object; desired == nil {
			return decision
		}
	}
	// A hash of the rule's words, which say nothing about the copy: TestSelection is about it.
	unstructured.RemoveNestedField(desired.Object, "metadata", "annotations", AnnotationSelections)
	text, err := yaml.Marshal(desired.Object)
	if err != nil {
		t.Fatal(err)
	}
	return decision + string(text)
}

func describe(out *strings.Builder, rule *Rule) {
	for _, s := range rule.Scopes() {
		fmt.Fprintf(out, "# watch namespace=%q labels=%q fields=%q\n", s.Namespace, s.LabelSelector, s.FieldSelector)
	}
	if rule.Moves() {
		for _, s := range rule.TargetScopes() {
			fmt.Fprintf(out, "# copies in kind=%s namespace=%q\n", formatKind(s.GVK), s.Namespace)
		}
	}
	if rule.FanOut() != nil {
		fmt.Fprintf(out, "# in namespaces with %s\n", rule.FanOut())
	}
	if text := rule.Manner().ObservesText(rule.Name()); text != "" {
		fmt.Fprintf(out, "# %s\n", text)
	}
	if rule.ReadsContent() || rule.ReadsClusters() {
		fmt.Fprintf(out, "# reads content=%t clusters=%t\n", rule.ReadsContent(), rule.ReadsClusters())
	}
}

func cluster(id, name string) *v1alpha1.Cluster {
	c := &v1alpha1.Cluster{}
	c.Name, c.Labels = name, map[string]string{"tier": "prod"}
	c.Spec.ClusterID = types.UID(id)
	c.Spec.KubernetesAPIEndpoints = []v1alpha1.KubernetesAPIEndpoint{{ServerAddress: name + ".example.com:6443", CABundle: []byte("PEM")}}
	c.Spec.AuthInfo.SecretRef = v1alpha1.NamespacedName{Namespace: "hidden", Name: "hidden"}
	c.Status.Locality = &v1alpha1.Locality{Region: name + "-1", Regions: []string{name + "-1"}}
	return c
}

// namespaced is what the API server of the cases knows: kinds named Cluster… and Namespace are in no namespace.
func namespaced(gvk schema.GroupVersionKind) (bool, error) {
	if gvk.Kind == "Unknown" {
		return false, errors.New("no such kind")
	}
	return gvk.Kind != "Namespace" && !strings.HasPrefix(gvk.Kind, "Cluster"), nil
}
