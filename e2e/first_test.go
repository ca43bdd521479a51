// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/roster-mesh/roster/e2e/harness"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// TestQuickstart is every numbered step of the quickstart, with what it tells the user to type. It comes
// first, since it forms the group by hand; the demo does the same with agentctl join.
func TestQuickstart(t *testing.T) {
	g := apart(t)
	// Steps build on each other: after a failure the rest would only say the same again.
	step := func(name string, do func(*testing.T)) {
		if !t.Failed() {
			t.Run(name, do)
		}
	}
	step("form a group 1 and 2: install", func(t *testing.T) { installed(t, g) })
	step("form a group 3: swap by hand", func(t *testing.T) {
		paste(t, g.alpha, g.beta)
		paste(t, g.beta, g.alpha)
	})
	step("form a group 4: check the status", func(t *testing.T) {
		eventually(t, "alpha and beta synced", within, func(ctx context.Context) error {
			for _, pair := range [][2]*harness.Cluster{{g.alpha, g.beta}, {g.beta, g.alpha}, {g.alpha, g.alpha}, {g.beta, g.beta}} {
				if err := listed(ctx, pair[0], pair[1]); err != nil {
					return err
				}
			}
			return nil
		})
	})
	step("attach 1 and 2: one swap", func(t *testing.T) {
		paste(t, g.alpha, g.gamma)
		paste(t, g.gamma, g.alpha)
	})
	step("attach 3: known to all", func(t *testing.T) {
		g.eventuallyWhole(t, within)
		fetchedCredential(t, g)
	})
	step("sync everywhere", func(t *testing.T) { quickstartEverywhere(t, g) })
	step("sync to a set", func(t *testing.T) { quickstartToSet(t, g) })
	step("sync from a set", func(t *testing.T) { quickstartFromSet(t, g) })
	step("clean up", func(t *testing.T) {
		deleteSecret(t, g.gamma, "test-secret")
		eventually(t, "copies gone with their source", within, noSecret(g.alpha, "test-secret"))
		for _, c := range g.Clusters[:3] {
			if err := remove(t.Context(), c, harness.Rules(), "", "test-secret-sink"); err != nil {
				t.Error(err)
			}
			if err := remove(t.Context(), c, harness.Features(), "", "test-secret-source"); err != nil {
				t.Error(err)
			}
		}
	})
}

// installed: the agent made a Cluster object with the chart's name and a credential that only reads.
func installed(t *testing.T, g *group) {
	for _, c := range g.Clusters[:3] {
		eventually(t, c.Name+" describes itself", within, func(ctx context.Context) error { return listed(ctx, c, c) })
		u, err := get(t.Context(), c, harness.Secrets(), harness.Namespace, c.Name)
		if err != nil {
			t.Fatal(err)
		}
		if kind, _, _ := unstructured.NestedString(u.Object, "type"); kind != v1alpha1.SecretType {
			t.Errorf("the credential of %s has type %q", c.Name, kind)
		}
		reads := map[string]bool{
			"list secrets -n " + harness.Namespace:                              true,
			"list clusters.clusterregistry.k8s.cisco.com":                       true,
			"create secrets -n " + harness.Namespace:                            false,
			"delete secrets -n " + harness.Namespace:                            false,
			"patch clusters.clusterregistry.k8s.cisco.com":                      false,
			"get secrets -n " + v1alpha1.PrivateNamespace(harness.Namespace):    false,
			"get secrets -n kube-system":                                        false,
			"create serviceaccounts/token -n " + harness.Namespace + "-readers": false,
		}
		may(t, c, []string{"--as=x", "--as-group=" + v1alpha1.ReadersGroup(harness.Namespace)}, reads)
		may(t, c, []string{"--as=system:serviceaccount:" + v1alpha1.PrivateNamespace(harness.Namespace) + ":" + v1alpha1.SwapAccount}, map[string]bool{
			"get namespaces/kube-system":                                     true,
			"list clusters.clusterregistry.k8s.cisco.com":                    true,
			"list resourcesyncrules.clusterregistry.k8s.cisco.com":           false,
			"patch clusters.clusterregistry.k8s.cisco.com":                   false,
			"create resourcesyncrules.clusterregistry.k8s.cisco.com":         false,
			"get namespaces/" + harness.Namespace:                            false,
			"list nodes":                                                     false,
			"list secrets -n " + harness.Namespace:                           false,
			"get secrets -n " + v1alpha1.PrivateNamespace(harness.Namespace): false,
		})
	}
}

// may: in a cluster, who is named by these flags may do this and not that.
func may(t *testing.T, c *harness.Cluster, as []string, rights map[string]bool) {
	t.Helper()
	for what, want := range rights {
		args := append(append([]string{"auth", "can-i"}, as...), strings.Fields(what)...)
		out, _ := c.Kubectl(t.Context(), args...) // the status is 1 for "no"
		if got := strings.HasPrefix(out, "yes"); got != want {
			t.Errorf("in %s %s can %s: %v", c.Name, as[0], what, got)
		}
	}
}

// listed: cluster at lists cluster of as synced, with the right type, as `kubectl get clusters` prints it.
func listed(ctx context.Context, at, of *harness.Cluster) error {
	if err := synced(ctx, at, of); err != nil {
		return fmt.Errorf("in %s: %w", at.Name, err)
	}
	u, err := get(ctx, at, harness.Clusters(), "", of.Name)
	if err != nil {
		return err
	}
	want := string(v1alpha1.ClusterTypePeer)
	if at == of {
		want = string(v1alpha1.ClusterTypeLocal)
	}
	if kind, _, _ := unstructured.NestedString(u.Object, "status", "type"); kind != want {
		return fmt.Errorf("in %s: cluster %s has type %q, not %q", at.Name, of.Name, kind, want)
	}
	if version, _, _ := unstructured.NestedString(u.Object, "status", "version"); !strings.HasPrefix(version, "v1.") {
		return fmt.Errorf("in %s: cluster %s has version %q", at.Name, of.Name, version)
	}
	out, err := at.Kubectl(ctx, "get", "cluster", of.Name)
	if err != nil {
		return err
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if len(lines) != 2 || !strings.HasPrefix(strings.Join(strings.Fields(lines[0]), " "), "NAME STATUS TYPE SYNCED") {
		return fmt.Errorf("kubectl get cluster printed %q", out)
	}
	if fields := strings.Fields(lines[1]); len(fields) < 4 || fields[2] != want || fields[3] != "True" {
		return fmt.Errorf("kubectl get cluster printed %q", out)
	}
	return nil
}

// paste does what the quickstart says, with all the fields that a server sets.
//
//	kubectl get cluster NAME -o yaml | kubectl apply -f -
//	kubectl get secret NAME -o yaml | kubectl apply -f -
func paste(t *testing.T, from, to *harness.Cluster) {
	t.Helper()
	if hasCluster(to, from.Name)(t.Context()) == nil {
		t.Logf("%s was handed to %s already, by another test", from.Name, to.Name)
		return
	}
	for _, args := range [][]string{{"cluster", from.Name}, {"secret", from.Name, "-n", harness.Namespace}} {
		yaml := kubectl(t, from, append([]string{"get", "-o", "yaml"}, args...)...)
		for _, field := range []string{"uid:", "resourceVersion:", "creationTimestamp:"} {
			if !strings.Contains(yaml, field) {
				t.Errorf("kubectl get %v -o yaml prints no %s, so the paste proves nothing about it", args, field)
			}
		}
		apply(t, to, yaml)
	}
}

// fetchedCredential: beta was never given a credential for gamma, and has one from gamma's agent, where
// peers cannot read it.
func fetchedCredential(t *testing.T, g *group) {
	private := v1alpha1.PrivateNamespace(harness.Namespace)
	eventually(t, "beta's Cluster gamma names a fetched credential", within, func(ctx context.Context) error {
		u, err := get(ctx, g.beta, harness.Clusters(), "", g.gamma.Name)
		if err != nil {
			return err
		}
		name, _, _ := unstructured.NestedString(u.Object, "spec", "authInfo", "secretRef", "name")
		namespace, _, _ := unstructured.NestedString(u.Object, "spec", "authInfo", "secretRef", "namespace")
		if namespace != private {
			return fmt.Errorf("it names %s/%s", namespace, name)
		}
		_, err = get(ctx, g.beta, harness.Secrets(), private, name)
		return err
	})
	if err := noSecret(g.beta, g.gamma.Name)(t.Context()); err != nil {
		t.Errorf("gamma's bootstrap credential has spread: %v", err)
	}
}

// What a cluster reads from its Nodes reaches the others.
func TestMetadata(t *testing.T) {
	g := joined(t)
	if err := g.gamma.AddNode(t.Context(), "one", "aws:///eu-central-1a/i-1", "eu-central-1", "eu-central-1a", map[string]string{"eks.amazonaws.com/nodegroup": "one"}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { kubectl(t, g.gamma, "delete", "node", "one") })
	for _, c := range g.Clusters[:3] {
		eventually(t, "gamma is described in "+c.Name, within, func(ctx context.Context) error {
			out, err := g.Agentctl(ctx, "--context", c.Name, "clusters")
			if err != nil {
				return err
			}
			for line := range strings.Lines(out) {
				if words := strings.Fields(line); words[0] == "gamma" && len(words) > 7 && words[5] == "amazon" && words[6] == "EKS" && words[7] == "eu-central-1" {
					return nil
				}
			}
			return fmt.Errorf("agentctl clusters prints\n%s", out)
		})
	}
}

// What an agent reports of itself reaches the others.
func TestMembers(t *testing.T) {
	g := joined(t)
	out, err := g.Agentctl(t.Context(), "members", "--context", "beta")
	if err != nil {
		t.Fatal(err)
	}
	for name, state := range map[string]string{"alpha": "Alive", "beta": "Local", "gamma": "Alive"} {
		if !memberIs(out, name, state) {
			t.Errorf("agentctl members does not say that %s is %s:\n%s", name, state, out)
		}
	}
	out, err = g.Agentctl(t.Context(), "version", "--context", "beta")
	if err != nil {
		t.Fatal(err)
	}
	own := strings.Fields(out)[1]
	for _, name := range []string{"alpha", "beta", "gamma"} {
		if !slices.ContainsFunc(strings.Split(out, "\n"), func(line string) bool {
			return slices.Equal(strings.Fields(line), []string{name, own, "none"})
		}) {
			t.Errorf("agentctl version does not say that the agent of %s has its own version:\n%s", name, out)
		}
	}
}

func memberIs(table, name, state string) bool {
	for line := range strings.Lines(table) {
		if words := strings.Fields(line); len(words) > 3 && words[0] == name {
			return words[3] == state
		}
	}
	return false
}

func quickstartEverywhere(t *testing.T, g *group) {
	apply(t, g.gamma, harness.QuickstartSecret, "-n", harness.Namespace)
	apply(t, g.alpha, harness.QuickstartRule)
	for _, c := range []*harness.Cluster{g.beta, g.gamma} {
		eventually(t, "the rule is in "+c.Name, within, hasRule(c, "test-secret-sink"))
	}
	for _, c := range []*harness.Cluster{g.alpha, g.beta} {
		eventually(t, "the Secret is in "+c.Name, within, hasCopy(c, g.gamma, "test-secret", ""))
		deleteSecret(t, c, "test-secret")
		eventually(t, "deleted in "+c.Name+", it is back", within, hasCopy(c, g.gamma, "test-secret", ""))
		putSecret(t, c, "test-secret", "tampered")
		eventually(t, "modified in "+c.Name+", it is restored", within, hasCopy(c, g.gamma, "test-secret", ""))
	}
	if err := remove(t.Context(), g.beta, harness.Rules(), "", "test-secret-sink"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "without the annotation a deleted rule is recreated", within, hasRule(g.beta, "test-secret-sink"))
	source, err := get(t.Context(), g.gamma, harness.Secrets(), harness.Namespace, "test-secret")
	if err != nil {
		t.Fatal(err)
	}
	if _, marked := source.GetAnnotations()[v1alpha1.AnnotationOwnerClusterID]; marked {
		t.Error("the source was marked as a copy")
	}
}

func quickstartToSet(t *testing.T, g *group) {
	kubectl(t, g.alpha, "annotate", "resourcesyncrule", "test-secret-sink", v1alpha1.AnnotationSyncDisabled+"=true")
	g.hears(t, g.beta, g.alpha, "test-secret-sink")
	stays(t, "copies of a rule that is no longer published stay", quiet, hasRule(g.beta, "test-secret-sink"))
	kubectl(t, g.beta, "delete", "resourcesyncrule", "test-secret-sink")
	stays(t, "the rule is not recreated in beta", quiet, noRule(g.beta, "test-secret-sink"))
	kubectl(t, g.beta, "delete", "secret", "test-secret", "-n", harness.Namespace)
	stays(t, "the Secret is not recreated in beta", quiet, noSecret(g.beta, "test-secret"))
	if err := hasCopy(g.alpha, g.gamma, "test-secret", "")(t.Context()); err != nil {
		t.Errorf("the rule is still in force in alpha: %v", err)
	}
}

func quickstartFromSet(t *testing.T, g *group) {
	kubectl(t, g.alpha, "patch", "resourcesyncrule", "test-secret-sink", "--type=merge", "-p",
		`{"spec":{"clusterFeatureMatch":[{"featureName":"test-secret-feature"}]}}`)
	eventually(t, "without a source, the copy in alpha is an orphan", within, func(ctx context.Context) error {
		u, err := get(ctx, g.alpha, harness.Secrets(), harness.Namespace, "test-secret")
		if err != nil {
			return err
		}
		if _, found := u.GetAnnotations()[v1alpha1.AnnotationOrphaned]; !found {
			return fmt.Errorf("annotations %v", u.GetAnnotations())
		}
		return nil
	})
	deleteSecret(t, g.alpha, "test-secret")
	stays(t, "with no ClusterFeature anywhere it is not recreated", quiet, noSecret(g.alpha, "test-secret"))
	apply(t, g.gamma, harness.QuickstartFeature)
	eventually(t, "with the feature in gamma the Secret comes from there", within, hasCopy(g.alpha, g.gamma, "test-secret", ""))
	deleteSecret(t, g.alpha, "test-secret")
	eventually(t, "and is recreated", within, hasCopy(g.alpha, g.gamma, "test-secret", ""))
	if err := absent(g.alpha, harness.Features(), "", "test-secret-source")(t.Context()); err != nil {
		t.Errorf("ClusterFeatures stay in their own API server: %v", err)
	}
}

// The last section of the quickstart: a kind beyond Secrets needs rights, which come by aggregation.
func TestOtherKindNeedsRights(t *testing.T) {
	g := joined(t)
	g.cleanUp(t, "wider")
	apply(t, g.gamma, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: wider, namespace: default, labels: {share: everywhere}}\ndata: {v: one}\n")
	configMaps := harness.Secrets()
	configMaps.Resource = "configmaps"
	t.Cleanup(func() {
		kubectl(t, g.gamma, "delete", "configmap", "wider", "-n", "default", "--ignore-not-found")
	})
	apply(t, g.alpha, `apiVersion: clusterregistry.k8s.cisco.com/v1alpha1
kind: ResourceSyncRule
metadata: {name: wider}
spec:
  groupVersionKind: {kind: ConfigMap, version: v1}
  rules:
  - match:
    - namespaces: [default]
      labels: [{matchLabels: {share: everywhere}}]
`)
	eventually(t, "the rule in alpha names the missing right", within, func(ctx context.Context) error {
		u, err := get(ctx, g.alpha, harness.Rules(), "", "wider")
		if err != nil {
			return err
		}
		status := fmt.Sprint(u.Object["status"])
		// The kind's name when the watch is refused, and the resource's once a review told which right is missing.
		if !strings.Contains(strings.ToLower(status), "configmap") || !strings.Contains(status, v1alpha1.LabelControllerAggregated) {
			return fmt.Errorf("status %s", status)
		}
		return nil
	})
	for _, c := range g.Clusters[:3] {
		apply(t, c, `apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: configmaps-too
  labels:
    cluster-registry.k8s.cisco.com/controller-aggregated: "true"
    cluster-registry.k8s.cisco.com/reader-aggregated: "true"
rules:
- {apiGroups: [""], resources: [configmaps], verbs: ["*"]}
`)
	}
	for _, c := range []*harness.Cluster{g.alpha, g.beta} {
		eventually(t, "with the right, the ConfigMap is in "+c.Name, afterFault, present(c, configMaps, "default", "wider"))
	}
	kubectl(t, g.gamma, "delete", "configmap", "wider", "-n", "default")
	for _, c := range []*harness.Cluster{g.alpha, g.beta} {
		eventually(t, "deleted in "+c.Name, within, absent(c, configMaps, "default", "wider"))
	}
}
