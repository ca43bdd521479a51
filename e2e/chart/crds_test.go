// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/roster-mesh/roster/e2e/harness"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// crdsChangeUnderTheAgent: helm upgrade changes CRDs before the agent, and a person may take one away and put it back.
// An API server ends the watches of a kind when its CRD changes; the agent goes on with the new ones by itself.
func crdsChangeUnderTheAgent(t *testing.T, c *harness.Cluster) {
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(c.StopAgent())
	must(c.StartAgent(t.Context(), "--keep-trying"))
	defer func() { must(c.StopAgent()) }()
	// A rule of its own is looked at by the agent when its status says something.
	obeyed := func(name string) {
		t.Helper()
		_, err := c.Apply(t.Context(), `{"apiVersion":"clusterregistry.k8s.cisco.com/v1alpha1","kind":"ResourceSyncRule","metadata":{"name":"`+name+`"},
			"spec":{"groupVersionKind":{"version":"v1","kind":"Secret"},"rules":[{"match":[{"objectKey":{"name":"`+name+`","namespace":"cluster-registry"}}]}]}}`)
		must(err)
		eventually(t, "the agent says something of the rule "+name, func(ctx context.Context) error {
			out, err := c.Kubectl(ctx, "get", "resourcesyncrule", name, "-o=jsonpath={.status.conditions}")
			if err == nil && out == "" {
				err = errors.New("it says nothing")
			}
			return errors.Join(err, c.AgentReady(ctx))
		})
	}
	obeyed("before")
	const crdOfRules = "resourcesyncrules.clusterregistry.k8s.cisco.com"
	for _, crd := range []string{crdOfClusters, crdOfRules} {
		// What a later version of the chart would do: another schema, and a later number.
		kubectl(t, c, "patch", "crd", crd, "--type=json", "-p", `[{"op":"add","path":"/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/later","value":{"type":"string"}}]`)
		kubectl(t, c, "annotate", "--overwrite", "crd", crd, "cluster-registry.k8s.cisco.com/schema-version=99")
	}
	obeyed("after")
	// This agent knows nothing of the new field, and writes around it.
	kubectl(t, c, "patch", "cluster", "alpha", "--type=merge", "-p", `{"spec":{"later":"kept","mesh":{"endpoints":["192.0.2.1:1"]}}}`)
	eventually(t, "the agent puts its address right, and leaves the rest", func(ctx context.Context) error {
		out, err := c.Kubectl(ctx, "get", "cluster", "alpha", "-o=jsonpath={.spec.mesh.endpoints} {.spec.later}")
		if err == nil && (strings.Contains(out, "192.0.2.1") || !strings.HasSuffix(out, " kept")) {
			err = errors.New(out)
		}
		return err
	})
	kubectl(t, c, "delete", "crd", crdOfClusters, crdOfRules)
	for _, crd := range []string{crdOfClusters, crdOfRules} {
		kubectl(t, c, "apply", "--server-side", "--force-conflicts", "-f", filepath.Join(binaries(t).Chart, "crds", crdFile(crd)))
	}
	kubectl(t, c, "wait", "--for=condition=Established", "--timeout=60s", "crd", crdOfClusters, crdOfRules)
	eventually(t, "the agent makes its Cluster object again", func(ctx context.Context) error {
		_, err := c.Kubectl(ctx, "get", "clusters.clusterregistry.k8s.cisco.com", "alpha")
		return err
	})
	// A rule that went with its CRD is not taken for deleted by a person, until one says that it is.
	eventually(t, "it is confirmed that the rules are gone", func(ctx context.Context) error {
		_, err := c.Kubectl(ctx, "annotate", "--overwrite", "cluster", "alpha", v1alpha1.AnnotationConfirmRestore+"="+time.Now().Format(time.RFC3339Nano))
		return errors.Join(err, c.AgentReady(ctx))
	})
	obeyed("again")
}

// crdFile is the file of the chart that a CRD is in.
func crdFile(name string) string {
	plural, group, _ := strings.Cut(name, ".")
	return group + "_" + plural + ".yaml"
}
