// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/cli"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/clusters"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// checkCRDs compares the CRDs that are served with the types that this agentctl was built with.
func checkCRDs(ctx context.Context, x *inspection) []Finding {
	var out []Finding
	for _, t := range x.targets {
		if t.apiErr != nil {
			continue // said by checkAPI
		}
		for _, kind := range []struct {
			plural string
			object any
		}{
			{"clusters", v1alpha1.Cluster{}}, {"resourcesyncrules", v1alpha1.ResourceSyncRule{}}, {"clusterfeatures", v1alpha1.ClusterFeature{}},
		} {
			if d := t.checkCRD(ctx, kind.plural, fieldsOf(reflect.TypeOf(kind.object))); d != nil {
				out = append(out, *d)
			}
		}
	}
	return out
}

func (t *target) checkCRD(ctx context.Context, plural string, known []string) *Finding {
	name := plural + "." + v1alpha1.SchemeGroupVersion.Group
	resource := schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	// The agent's own account, which doctor has in a pod, may list them and not get one.
	list, err := t.client.Dynamic.Resource(resource).List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + name})
	d := &Finding{Severity: Error, Cluster: t.name(), Fix: t.kubectl("apply", "--server-side", "-f", "charts/agent/crds")}
	switch {
	case err != nil:
		return &Finding{Severity: Unknown, Cluster: t.name(), Message: "the CRD " + name + " cannot be read: " + clusters.Reason(err)}
	case len(list.Items) == 0:
		d.Message = "the CRD " + name + " is not installed"
		return d
	}
	served, found := servedFields(&list.Items[0])
	if !found {
		d.Message = fmt.Sprintf("the CRD %s does not serve version %s", name, v1alpha1.SchemeGroupVersion.Version)
		return d
	}
	if lacks := without(known, served); len(lacks) > 0 {
		d.Severity = Warning
		d.Message = fmt.Sprintf("the CRD %s is older than this agentctl: it drops %s", name, cli.Brief(lacks))
		return d
	}
	if more := without(served, known); len(more) > 0 {
		d.Severity, d.Fix = Warning, ""
		d.Message = fmt.Sprintf("the CRD %s is newer than this agentctl, which does not know %s: use the agentctl of the agents' version", name, cli.Brief(more))
		return d
	}
	return nil
}

// servedFields are the paths of all fields that a CRD keeps.
func servedFields(crd *unstructured.Unstructured) (fields []string, found bool) {
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	for _, v := range versions {
		version, _ := v.(map[string]any)
		if served, _ := version["served"].(bool); !served || version["name"] != v1alpha1.SchemeGroupVersion.Version {
			continue
		}
		root, _, _ := unstructured.NestedMap(version, "schema", "openAPIV3Schema")
		walkSchema(root, "", &fields, 0)
		slices.Sort(fields)
		return fields, true
	}
	return nil, false
}

// maxDepth is far more than the registry's kinds have.
const maxDepth = 20

func walkSchema(schema map[string]any, path string, out *[]string, depth int) {
	if items, ok := schema["items"].(map[string]any); ok {
		schema = items
	}
	properties, _ := schema["properties"].(map[string]any)
	for name, value := range properties {
		property, _ := value.(map[string]any)
		at := path + "." + name
		if depth == 0 && (name == "metadata" || name == "apiVersion" || name == "kind") || depth >= maxDepth {
			continue
		}
		*out = append(*out, at[1:])
		if name != "conditions" { // older and newer forms of conditions are taken alike
			walkSchema(property, at, out, depth+1)
		}
	}
}

// fieldsOf are the same paths of a Go type.
func fieldsOf(t reflect.Type) []string {
	var out []string
	walkType(t, "", &out, 0)
	slices.Sort(out)
	return out
}

func walkType(t reflect.Type, path string, out *[]string, depth int) {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || isScalar(t) || depth >= maxDepth {
		return
	}
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "-" || depth == 0 && (name == "metadata" || f.Type == reflect.TypeFor[metav1.TypeMeta]()):
		case name == "":
			walkType(f.Type, path, out, depth)
		default:
			at := path + "." + name
			*out = append(*out, at[1:])
			walkType(f.Type, at, out, depth+1)
		}
	}
}

// isScalar are the structs that are one value in JSON, or are taken as one.
func isScalar(t reflect.Type) bool {
	return slices.Contains([]reflect.Type{
		reflect.TypeFor[metav1.Time](), reflect.TypeFor[metav1.Duration](), reflect.TypeFor[intstr.IntOrString](), reflect.TypeFor[metav1.Condition](),
	}, t)
}

// without are the paths of a that are not in b, each without what is below it.
func without(a, b []string) []string {
	var out []string
	for _, path := range a {
		if slices.Contains(b, path) || len(out) > 0 && strings.HasPrefix(path, out[len(out)-1]+".") {
			continue
		}
		out = append(out, path)
	}
	return out
}
