// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import (
	"bytes"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	crdvalidation "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"sigs.k8s.io/yaml"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// The files of testdata/admission say what the API server takes. A file holds one or more manifests of
// one object, applied in their order. Those of accept/ are all taken. Of those of refuse/ the last is
// refused, and the first line of the file, "# want: TEXT", says what the refusal must contain.
//
// These tests run the files through the API server's own libraries; the e2e suite applies the same
// files to a real one.

func TestAdmissionAccepts(t *testing.T) {
	admission := newAdmission(t)
	for _, file := range files(t, "accept") {
		t.Run(filepath.Base(file), func(t *testing.T) {
			var old map[string]any
			for _, object := range manifests(t, file) {
				if errs := admission.check(t, object, old); len(errs) > 0 {
					t.Error(errs.ToAggregate())
				}
				if rule, ok := typed(t, object).(*v1alpha1.ResourceSyncRule); ok && selectsNothing(rule) {
					t.Error("SelectsNothing is true for an entry that admission takes")
				}
				old = object
			}
		})
	}
}

func TestAdmissionRefuses(t *testing.T) {
	admission := newAdmission(t)
	for _, file := range files(t, "refuse") {
		t.Run(filepath.Base(file), func(t *testing.T) {
			var old map[string]any
			objects, want := manifests(t, file), wanted(t, file)
			for i, object := range objects {
				errs := admission.check(t, object, old)
				switch last := i == len(objects)-1; {
				case !last && len(errs) > 0:
					t.Fatalf("manifest %d: %v", i, errs.ToAggregate())
				case last && len(errs) == 0:
					t.Fatal("taken")
				case last && !strings.Contains(errs.ToAggregate().Error(), want):
					t.Errorf("refused with %v, want %q", errs.ToAggregate(), want)
				}
				old = object
			}
			if strings.HasPrefix(want, "a match entry must select") && !selectsNothing(typed(t, old).(*v1alpha1.ResourceSyncRule)) {
				t.Error("SelectsNothing is false for an entry that admission refuses")
			}
		})
	}
}

// TestCRDs checks the CRDs as the API server does when they are created, which includes its estimate of
// what the CEL rules cost.
func TestCRDs(t *testing.T) {
	for _, crd := range crds(t) {
		crd.Status.StoredVersions = []string{"v1alpha1"}
		if errs := crdvalidation.ValidateCustomResourceDefinition(t.Context(), crd); len(errs) > 0 {
			t.Errorf("%s: %v", crd.Name, errs.ToAggregate())
		}
	}
}

// admission checks objects as the API server does, by kind.
type admission map[string]kindAdmission

type kindAdmission struct {
	schema     validation.SchemaValidator
	structural *structuralschema.Structural
	rules      *cel.Validator
}

func newAdmission(t *testing.T) admission {
	t.Helper()
	byKind := admission{}
	for _, crd := range crds(t) {
		props := crd.Spec.Versions[0].Schema
		if props == nil {
			props = crd.Spec.Validation
		}
		schema, _, err := validation.NewSchemaValidator(props.OpenAPIV3Schema)
		if err != nil {
			t.Fatal(err)
		}
		structural, err := structuralschema.NewStructural(props.OpenAPIV3Schema)
		if err != nil {
			t.Fatal(err)
		}
		byKind[crd.Spec.Names.Kind] = kindAdmission{
			schema: schema, structural: structural,
			rules: cel.NewValidator(structural, true, celconfig.PerCallLimit),
		}
	}
	return byKind
}

func (a admission) check(t *testing.T, object, old map[string]any) field.ErrorList {
	t.Helper()
	kind, ok := a[object["kind"].(string)]
	if !ok {
		t.Fatalf("no CRD for %v", object["kind"])
	}
	errs := validation.ValidateCustomResource(nil, object, kind.schema)
	more, _ := kind.rules.Validate(t.Context(), nil, kind.structural, object, asAny(old), math.MaxInt64)
	return append(errs, more...)
}

// asAny keeps a nil map from becoming an old object that is not nil.
func asAny(object map[string]any) any {
	if object == nil {
		return nil
	}
	return object
}

func crds(t *testing.T) []*apiextensions.CustomResourceDefinition {
	t.Helper()
	files, err := filepath.Glob("../../../charts/agent/crds/*.yaml")
	if err != nil || len(files) != 3 {
		t.Fatalf("CRDs: %v %v", files, err)
	}
	var out []*apiextensions.CustomResourceDefinition
	for _, file := range files {
		var crd apiextensionsv1.CustomResourceDefinition
		if err := yaml.UnmarshalStrict(read(t, file), &crd); err != nil {
			t.Fatal(err)
		}
		apiextensionsv1.SetDefaults_CustomResourceDefinition(&crd)
		apiextensionsv1.SetDefaults_CustomResourceDefinitionSpec(&crd.Spec)
		var internal apiextensions.CustomResourceDefinition
		if err := apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(&crd, &internal, nil); err != nil {
			t.Fatal(err)
		}
		out = append(out, &internal)
	}
	return out
}

// typed decodes an object into its Go type, which must know every field that the manifest has.
func typed(t *testing.T, object map[string]any) any {
	t.Helper()
	var into any
	switch object["kind"] {
	case "Cluster":
		into = new(v1alpha1.Cluster)
		object = map[string]any{"spec": object["spec"]} // the status of a paste may hold foreign fields
	case "ResourceSyncRule":
		into = new(v1alpha1.ResourceSyncRule)
	case "ClusterFeature":
		into = new(v1alpha1.ClusterFeature)
	}
	data, err := yaml.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict(data, into); err != nil {
		t.Fatal(err)
	}
	return into
}

func selectsNothing(rule *v1alpha1.ResourceSyncRule) bool {
	for _, r := range rule.Spec.Rules {
		for i := range r.Matches {
			if r.Matches[i].SelectsNothing() {
				return true
			}
		}
	}
	return false
}

func files(t *testing.T, kind string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", "admission", kind, "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no files: %v", err)
	}
	return files
}

func manifests(t *testing.T, file string) []map[string]any {
	t.Helper()
	var out []map[string]any
	decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(read(t, file)), 4096)
	for {
		var object map[string]any
		switch err := decoder.Decode(&object); {
		case errors.Is(err, io.EOF):
			return out
		case err != nil:
			t.Fatal(err)
		}
		out = append(out, object)
	}
}

func wanted(t *testing.T, file string) string {
	t.Helper()
	line, _, _ := strings.Cut(string(read(t, file)), "\n")
	want, ok := strings.CutPrefix(line, "# want: ")
	if !ok || want == "" {
		t.Fatalf("%s does not say what is wanted", file)
	}
	return want
}

func read(t *testing.T, file string) []byte {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
