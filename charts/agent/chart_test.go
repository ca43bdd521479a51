// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

func TestRights(t *testing.T) {
	rights, err := DefaultRights()
	if err != nil {
		t.Fatal(err)
	}
	for _, places := range []Places{rights.Agent, rights.Reader, rights.Swapped, rights.CRDs, rights.Registry, rights.Caller, rights.UI, rights.Visitor} {
		for _, right := range all(places) {
			if len(right.APIGroups) == 0 || len(right.Resources) == 0 || len(right.Verbs) == 0 || right.Why == "" {
				t.Errorf("%+v: is not complete", right)
			}
			if slices.Contains(slices.Concat(right.Verbs, right.Resources, right.APIGroups), "*") {
				t.Errorf("%+v: gives more than one can see", right)
			}
			for _, verb := range right.Need {
				if !slices.Contains(right.Verbs, verb) {
					t.Errorf("%+v: needs %s and does not give it", right, verb)
				}
			}
			if !slices.Contains([]string{"", "mesh.service", "rbac.broadSecretRead", "publish.clusterProfiles"}, right.When) {
				t.Errorf("%+v: templates/_rights.tpl does not know that condition", right)
			}
		}
	}
}

// TestWhoReadsWritesNothing: neither a reader nor who has a swapped credential has a verb that changes something. Nor has the page, which
// asks whose a token is, and what that user may do; it reads no Secret.
func TestWhoReadsWritesNothing(t *testing.T) {
	rights, err := DefaultRights()
	if err != nil {
		t.Fatal(err)
	}
	asks := []string{"tokenreviews", "subjectaccessreviews"}
	for _, places := range []Places{rights.Reader, rights.Swapped, rights.UI} {
		for _, right := range all(places) {
			changes := slices.ContainsFunc(right.Verbs, func(verb string) bool { return !slices.Contains([]string{"get", "list", "watch"}, verb) })
			if changes && (len(right.Resources) != 1 || !slices.Contains(asks, right.Resources[0])) {
				t.Errorf("%+v: is more than to read", right)
			}
		}
	}
	for _, right := range append(all(rights.UI), all(rights.Swapped)...) {
		if slices.ContainsFunc(right.Resources, func(r string) bool { return strings.HasPrefix(r, "secrets") || strings.HasPrefix(r, "serviceaccounts") }) {
			t.Errorf("%+v: reads Secrets", right)
		}
	}
}

// all are the rights in all places.
func all(p Places) []Right {
	return slices.Concat(p.Cluster, p.Own, p.Private, p.Readers, p.Default, p.Publish, p.Renew)
}

// A schema that changes under the same number would not reach the clusters that have the number already.
func TestSchemaVersionIsRaised(t *testing.T) {
	crds, err := CRDs()
	if err != nil || len(crds) != 3 {
		t.Fatalf("%d CRDs: %v", len(crds), err)
	}
	sum := sha256.New()
	for _, crd := range crds {
		if got := crd.GetAnnotations()[v1alpha1.AnnotationSchemaVersion]; got != strconv.Itoa(v1alpha1.SchemaVersion) {
			t.Errorf("%s has schema version %q: run make generate", crd.GetName(), got)
		}
		data, err := json.Marshal(crd.Object["spec"])
		if err != nil {
			t.Fatal(err)
		}
		sum.Write(data)
	}
	const record = "testdata/schema.sha256"
	data, err := os.ReadFile(record)
	if err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("%d %s\n", v1alpha1.SchemaVersion, hex.EncodeToString(sum.Sum(nil))); string(data) != want {
		t.Errorf("the CRDs have changed: raise v1alpha1.SchemaVersion, run make generate, and record in %s the version and the hash that are then here: %s", record, want)
	}
}

// Every value has a place in the schema, and the schema has no others.
func TestSchemaHasTheValues(t *testing.T) {
	read := func(path string) map[string]any {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var out map[string]any
		if err := yaml.Unmarshal(data, &out); err != nil {
			t.Fatal(err)
		}
		return out
	}
	schema := read("values.schema.json")
	definitions, _ := schema["definitions"].(map[string]any)
	compare(t, "", read("values.yaml"), schema, definitions)
}

func compare(t *testing.T, path string, values, schema, definitions map[string]any) {
	t.Helper()
	if ref, ok := schema["$ref"].(string); ok {
		schema, _ = definitions[strings.TrimPrefix(ref, "#/definitions/")].(map[string]any)
	}
	properties, closed := schema["properties"].(map[string]any)
	if !closed {
		return
	}
	for name, value := range values {
		property, ok := properties[name].(map[string]any)
		if !ok {
			t.Errorf("%s.%s is not in the schema", path, name)
			continue
		}
		if inner, ok := value.(map[string]any); ok {
			compare(t, path+"."+name, inner, property, definitions)
		}
	}
	for name := range properties {
		_, known := values[name]
		if optional := path == "" && name == "global" || path == ".affinity" || strings.HasSuffix(path, ".resources"); !known && !optional {
			t.Errorf("%s.%s is in the schema and no value", path, name)
		}
	}
}

// Every metric that a query names is one that the code makes. That the queries mean something is seen where a
// Prometheus runs them.
func TestQueriesNameMetrics(t *testing.T) {
	made := metricNames(t)
	named := regexp.MustCompile(`\broster_[a-z0-9_]+`)
	for _, file := range []string{"files/alerts.yaml", "files/dashboard.json"} {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(file, ".json") && !json.Valid(data) {
			t.Errorf("%s is not JSON", file)
		}
		found := named.FindAllString(string(data), -1)
		if len(found) < 5 {
			t.Errorf("%s names %d metrics", file, len(found))
		}
		for _, name := range found {
			base := strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(name, "_bucket"), "_sum"), "_count")
			if !made[name] && !made[base] {
				t.Errorf("%s: nothing makes a metric %s; there are %v", file, name, slices.Sorted(maps.Keys(made)))
			}
		}
	}
}

// metricNames are the strings in the code that are names of metrics, also those put together from a prefix that ends
// in _ and another string of the same file.
func metricNames(t *testing.T) map[string]bool {
	t.Helper()
	made := map[string]bool{}
	for _, dir := range []string{"agent", "kube", "mesh", "replica", "syncrules"} {
		err := filepath.WalkDir(filepath.Join("../..", dir), func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
			if err != nil {
				return err
			}
			addNames(made, file)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return made
}

func addNames(made map[string]bool, file *ast.File) {
	var prefixes, words []string
	ast.Inspect(file, func(n ast.Node) bool {
		literal, ok := n.(*ast.BasicLit)
		if !ok || literal.Kind != token.STRING {
			return true
		}
		text, err := strconv.Unquote(literal.Value)
		switch {
		case err != nil:
		case strings.HasPrefix(text, "roster_") && strings.HasSuffix(text, "_"):
			prefixes = append(prefixes, text)
		case strings.HasPrefix(text, "roster_"):
			made[text] = true
		default:
			words = append(words, text)
		}
		return true
	})
	for _, prefix := range prefixes {
		for _, word := range words {
			made[prefix+word] = true
		}
	}
}

// What Artifact Hub shows of the chart is so: the CRDs are those that there are, and the icon is in the repository.
func TestArtifactHub(t *testing.T) {
	var chart struct {
		Icon, Home  string
		Sources     []string
		Annotations map[string]string
	}
	data, err := os.ReadFile("Chart.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(data, &chart); err != nil {
		t.Fatal(err)
	}
	var listed []struct{ Kind, Version, Name string }
	if err := yaml.Unmarshal([]byte(chart.Annotations["artifacthub.io/crds"]), &listed); err != nil {
		t.Fatal(err)
	}
	crds, err := CRDs()
	if err != nil || len(listed) != len(crds) {
		t.Fatalf("%d CRDs are listed, and there are %d: %v", len(listed), len(crds), err)
	}
	for _, crd := range crds {
		if !slices.ContainsFunc(listed, func(l struct{ Kind, Version, Name string }) bool {
			return l.Name == crd.GetName() && l.Version == "v1alpha1"
		}) {
			t.Errorf("%s is not listed", crd.GetName())
		}
	}
	_, path, found := strings.Cut(chart.Icon, "/main/")
	if _, err := os.Stat("../../" + path); !found || err != nil {
		t.Errorf("the icon %s: %v", chart.Icon, err)
	}
	if chart.Home == "" || len(chart.Sources) == 0 {
		t.Error("Chart.yaml says not where the chart comes from")
	}
}
