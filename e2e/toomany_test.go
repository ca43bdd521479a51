// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/roster-mesh/roster/e2e/harness"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/syncrules/engine/inforce"
)

// TestManyRulesOfAMember: a member publishes more rules than may be in force of one. Those that come last in another cluster say so
// there, and a rule that a third member makes afterwards is in force.
func TestManyRulesOfAMember(t *testing.T) {
	r := newRoom(t)
	const many = inforce.MaxRules + 44
	spec := map[string]any{
		"groupVersionKind": map[string]any{"version": "v1", "kind": "ConfigMap"},
		"rules": []any{map[string]any{"match": []any{map[string]any{
			"namespaces": []any{r.name}, "labels": []any{map[string]any{"matchLabels": map[string]any{"for": "flood"}}},
		}}}},
	}
	for i := range many {
		rule := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
		rule.SetAPIVersion(v1alpha1.SchemeGroupVersion.String())
		rule.SetKind("ResourceSyncRule")
		rule.SetName(fmt.Sprintf("%s-flood-%03d", r.name, i))
		rule.SetLabels(map[string]string{"flood": r.name})
		if _, err := r.gamma.Dynamic.Resource(harness.Rules()).Create(lasting(t), rule, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		err := r.gamma.Dynamic.Resource(harness.Rules()).DeleteCollection(lasting(t), metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "flood=" + r.name})
		if err != nil {
			t.Error(err)
		}
	})
	put(t, r.gamma, configMaps, r.object(configMaps, "flood", "flood", "1"))
	r.eventuallyCopied(t, configMaps, "flood", "1", r.beta)
	eventually(t, "the rules that beta has too many say so", afterFault, r.inForce(r.beta, inforce.MaxRules, many))

	r.rule(t, r.alpha, "honest", ofConfigMaps+"rules: [{"+forLabel("honest")+"}]")
	put(t, r.alpha, configMaps, r.object(configMaps, "honest", "honest", "1"))
	eventually(t, "what a third member's rule selects is in beta", afterFault, copied(r.beta, r.alpha, configMaps, r.name, "honest", "1"))
	eventually(t, "and that rule is in force", afterFault, r.ruleSays(r.beta, "honest", "True", ""))
}

// wideNamespaces is how many namespaces a rule may name.
const wideNamespaces = 256

func wideRule(i int) string { return fmt.Sprintf("wide-%02d", i) }

// wideSpec is a rule that copies ConfigMaps of namespaces of other clusters to beta.
func (r *room) wideSpec(namespaces []string) string {
	return ofConfigMaps + "clusterFeatureMatch: [{featureName: " + r.name + "}], targets: {names: [beta]}, rules: [{match: [{namespaces: [" + strings.Join(namespaces, ", ") + "]}]}]"
}

// wide lets such rules read at the sources and write, and returns how many watches of ConfigMaps there are before there is one.
func (r *room) wide(t *testing.T, sources ...*harness.Cluster) (watches int) {
	t.Helper()
	readers, agents := v1alpha1.ReadersGroup(harness.Namespace), "system:serviceaccount:"+harness.Namespace+":"+harness.ServiceAccount
	for _, c := range append(sources, r.beta) {
		who := "--group=" + readers
		if c == r.beta {
			who = "--user=" + agents
		}
		kubectl(t, c, "create", "clusterrole", r.name, "--verb=*", "--resource=configmaps")
		kubectl(t, c, "create", "clusterrolebinding", r.name, "--clusterrole="+r.name, who)
		t.Cleanup(func() { kubectl(t, c, "delete", "clusterrole/"+r.name, "clusterrolebinding/"+r.name) })
	}
	for _, c := range sources {
		apply(t, c, fmt.Sprintf("apiVersion: %s\nkind: ClusterFeature\nmetadata: {name: %[2]s}\nspec: {featureName: %[2]s}\n", v1alpha1.SchemeGroupVersion, r.name))
		t.Cleanup(func() {
			if err := remove(lasting(t), c, harness.Features(), "", r.name); err != nil {
				t.Error(err)
			}
		})
	}
	return r.watchesOfConfigMaps(t)
}

// watchesOfConfigMaps counts those that all API servers have open.
func (r *room) watchesOfConfigMaps(t *testing.T) (watches int) {
	t.Helper()
	for _, c := range []*harness.Cluster{r.alpha, r.beta, r.gamma} {
		page, err := c.Kube.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		counts, err := sums(page, "apiserver_longrunning_requests", func(label func(string) string) string { return label("verb") + " " + label("resource") })
		if err != nil {
			t.Fatal(err)
		}
		watches += int(counts["WATCH configmaps"])
	}
	return watches
}

// inForce is a condition: of gamma's rules in the cluster, which are all in number, so many are in force, and the others say why not.
func (r *room) inForce(c *harness.Cluster, want, all int) func(context.Context) error {
	return func(ctx context.Context) error {
		rules, err := c.Dynamic.Resource(harness.Rules()).List(ctx, metav1.ListOptions{LabelSelector: "flood=" + r.name})
		if err != nil {
			return err
		}
		counts, of := map[any]int{}, len(rules.Items)
		for i := range rules.Items {
			u := &rules.Items[i]
			ready := harness.Condition(u, "Ready")
			counts[ready["reason"]]++
			if text := fmt.Sprint(ready["message"]); ready["reason"] == "TooManyRules" && !strings.Contains(text, fmt.Sprint(inforce.MaxRules, " rules of cluster gamma are in force here")) {
				return fmt.Errorf("rule %s says %s", u.GetName(), text)
			}
		}
		if of != all || counts["TooManyRules"] != all-want || counts["Synced"] != want {
			return fmt.Errorf("of %d rules of gamma in %s these are the reasons: %v", of, c.Name, counts)
		}
		return nil
	}
}
