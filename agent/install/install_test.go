// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	chart "github.com/roster-mesh/roster/charts/agent"
	"github.com/roster-mesh/roster/kube"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// kindOf is the kind of a resource in the list of rights.
func kindOf(group, resource string) (schema.GroupVersionKind, error) {
	kinds := map[string]schema.GroupVersionKind{
		"clusters":          v1alpha1.SchemeGroupVersion.WithKind("Cluster"),
		"resourcesyncrules": v1alpha1.SchemeGroupVersion.WithKind("ResourceSyncRule"),
		"clusterfeatures":   v1alpha1.SchemeGroupVersion.WithKind("ClusterFeature"),
		"secrets":           {Version: "v1", Kind: "Secret"},
		"serviceaccounts":   {Version: "v1", Kind: "ServiceAccount"},
	}
	if kind, ok := kinds[resource]; ok && kind.Group == group {
		return kind, nil
	}
	return schema.GroupVersionKind{}, fmt.Errorf("files/rights.yaml: need of %s in group %q, which the agent does not know", resource, group)
}

// neededRights are the rights in the chart without which the agent does not start.
func neededRights(namespace string) ([]kube.Attributes, error) {
	rights, err := chart.DefaultRights()
	if err != nil {
		return nil, err
	}
	var need []kube.Attributes
	for _, place := range []struct {
		namespace string
		rights    []chart.Right
	}{
		{"", rights.Agent.Cluster},
		{namespace, rights.Agent.Own},
		{v1alpha1.PrivateNamespace(namespace), rights.Agent.Private},
		{v1alpha1.ReadersNamespace(namespace), rights.Agent.Readers},
	} {
		for _, right := range place.rights {
			for _, resource := range right.Resources {
				for _, verb := range right.Need {
					kind, err := kindOf(right.APIGroups[0], resource)
					if err != nil {
						return nil, err
					}
					need = append(need, kube.Attributes{Verb: verb, GVK: kind, Namespace: place.namespace})
				}
			}
		}
	}
	return need, nil
}

// The rights that the agent and agentctl doctor check are exactly those that files/rights.yaml marks as needed, and so
// grants.
func TestNeededRightsAreGranted(t *testing.T) {
	need, err := neededRights("cluster-registry")
	if err != nil {
		t.Fatal(err)
	}
	text := func(rights []kube.Attributes) []string {
		var out []string
		for _, right := range rights {
			out = append(out, fmt.Sprint(right))
		}
		slices.Sort(out)
		return out
	}
	if diff := cmp.Diff(text(need), text(kube.AgentRights("cluster-registry"))); diff != "" {
		t.Errorf("kube.AgentRights and files/rights.yaml differ (-need +asked):\n%s", diff)
	}
}

func TestCheckSchema(t *testing.T) {
	crd := func(version, oldest string) map[string]string {
		return map[string]string{v1alpha1.AnnotationSchemaVersion: version, v1alpha1.AnnotationSchemaOldestAgent: oldest}
	}
	for name, test := range map[string]struct {
		have map[string]string
		want string
	}{
		"same":                 {crd("3", "1"), ""},
		"newer":                {crd("4", "3"), ""},
		"newer, and different": {crd("4", "4"), "this agent is older than the CRD x"},
		"older":                {crd("2", "1"), "the CRD x is older than this agent"},
		"of nobody":            {nil, "the CRD x is older than this agent"},
	} {
		err := checkSchema("x", test.have, 3)
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
}
