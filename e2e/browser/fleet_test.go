// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package browser

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/roster-mesh/roster/e2e/harness"
)

// ruleOf selects Secrets, or objects of another kind, by a label that has the rule's name.
const ruleOf = `
apiVersion: clusterregistry.k8s.cisco.com/v1alpha1
kind: ResourceSyncRule
metadata: {name: %[1]s}
spec:
  groupVersionKind: {kind: %[2]s, version: v1}
  rules: [{match: [{namespaces: [NAMESPACE], labels: [{matchLabels: {sync: %[1]s}}]}]}]
---`

// sourceOf is one of those objects.
const sourceOf = `
apiVersion: v1
kind: %[2]s
metadata: {name: %[1]s-%[3]s, namespace: NAMESPACE, labels: {sync: %[1]s}}
---`

// foreign is somebody else's object of the name of a copy.
const foreign = `
apiVersion: v1
kind: Secret
metadata: {name: pull-secrets-tokyo-1, namespace: NAMESPACE}
stringData: {password: another}
`

// mayWrite is the right that one cluster lacks.
const mayWrite = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: roster-feature-flags, labels: {cluster-registry.k8s.cisco.com/controller-aggregated: "true", cluster-registry.k8s.cisco.com/reader-aggregated: "true"}}
rules:
- {apiGroups: [""], resources: [configmaps], verbs: [get, list, watch, create, update, delete]}
`

// sources are the objects of some clusters: how many of each rule.
func sources() map[string]map[string]int {
	return map[string]map[string]int{
		"dublin":   {"pull-secrets": 2, "grafana-tokens": 2},
		"edge-lab": {"tls-certificates": 2, "grafana-tokens": 3},
		"tokyo":    {"pull-secrets": 3, "tls-certificates": 4, "grafana-tokens": 1},
		"virginia": {"tls-certificates": 3},
	}
}

// fill gives the clusters rules and objects, of which some are in the way or may not be written. It returns tokyo.
func fill(t *testing.T, fleet *harness.Fleet) (tokyo *harness.Cluster) {
	t.Helper()
	first := fleet.Clusters[0]
	apply(t, first, foreign)
	for _, c := range fleet.Clusters {
		var objects strings.Builder
		if c != first {
			objects.WriteString(mayWrite + "---")
		}
		for rule, count := range sources()[c.Name] {
			for i := range count {
				fmt.Fprintf(&objects, sourceOf, rule, "Secret", fmt.Sprint(c.Name, "-", i))
			}
		}
		if c.Name == "tokyo" {
			tokyo = c
		}
		if objects.Len() > 0 {
			apply(t, c, objects.String())
		}
	}
	var rules strings.Builder
	for rule, kind := range map[string]string{"pull-secrets": "Secret", "tls-certificates": "Secret", "grafana-tokens": "Secret", "feature-flags": "ConfigMap"} {
		fmt.Fprintf(&rules, ruleOf, rule, kind)
	}
	apply(t, first, rules.String())
	return tokyo
}

// up starts five clusters, which are a group.
func up(t *testing.T) *harness.Fleet {
	t.Helper()
	names := []string{"frankfurt", "dublin", "edge-lab", "tokyo", "virginia"}
	fleet := controlPlanes(t, names...)
	for _, c := range fleet.Clusters {
		if err := errors.Join(c.Install(t.Context()), c.StartAgent(t.Context())); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := fleet.Clusters[0].Agentctl(t.Context(), "join", "--peer-context", strings.Join(names[1:], ",")); err != nil {
		t.Fatal(err, out)
	}
	return fleet
}

// controlPlanes starts them, with nothing in them.
func controlPlanes(t *testing.T, names ...string) *harness.Fleet {
	t.Helper()
	bin, err := harness.FindBinaries()
	if err != nil {
		t.Fatal(err)
	}
	fleet, err := harness.Up(t.Context(), harness.Options{Binaries: bin, Dir: t.TempDir(), Names: names, Log: t.Logf})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := fleet.Close(); err != nil {
			t.Error(err)
		}
	})
	return fleet
}

func apply(t *testing.T, c *harness.Cluster, manifest string) {
	t.Helper()
	if out, err := c.Apply(t.Context(), strings.ReplaceAll(manifest, "NAMESPACE", harness.Namespace)); err != nil {
		t.Fatal(err, out)
	}
}

// serve runs agentctl ui about the first cluster until the test ends, and returns its link.
func serve(t *testing.T, fleet *harness.Fleet, flags ...string) string {
	t.Helper()
	bin, err := harness.FindBinaries()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cmd := exec.CommandContext(ctx, bin.Agentctl, append([]string{"ui", "--kubeconfig", fleet.Kubeconfig, "--context", fleet.Clusters[0].Name}, flags...)...)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = cmd.Wait() // it was killed
	})
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if text := strings.TrimSpace(lines.Text()); strings.HasPrefix(text, "http://") {
			return text
		}
	}
	t.Fatal("agentctl ui printed no link")
	return ""
}
