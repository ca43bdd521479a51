// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
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

// TestManyWatchesOfAMember: rules of a member name more namespaces than one author's may be watched at one cluster. As many of them are in
// force in beta as may, and what it opens at alpha, and at its own API server for the copies, is bounded; the others say so. Agents of
// clusters that the rules leave out open nothing, although they may read and write such objects.
func TestManyWatchesOfAMember(t *testing.T) {
	r := newRoom(t)
	const each, rules = wideNamespaces, inforce.MaxViews/wideNamespaces + 2
	for _, c := range []*harness.Cluster{r.alpha, r.gamma} {
		kubectl(t, c, "create", "clusterrolebinding", r.name+"-agent", "--clusterrole="+r.name, "--user=system:serviceaccount:"+harness.Namespace+":"+harness.ServiceAccount)
		t.Cleanup(func() { kubectl(t, c, "delete", "clusterrolebinding/"+r.name+"-agent") })
	}
	before := r.wide(t, r.alpha, r.gamma)
	for i := range rules {
		names := make([]string, each)
		for n := range names {
			names[n] = fmt.Sprintf("n%d", each*i+n)
		}
		r.rule(t, r.gamma, wideRule(i), r.wideSpec(names))
	}
	const most, few = 3 * inforce.MaxViews, 64 // at alpha, gamma and beta; others open or close some meanwhile
	// Each rule waits for 16 seconds where gamma has used up what it may have written in beta.
	eventually(t, "beta watches what it may", 2*afterFault, func(context.Context) error {
		if opened := r.watchesOfConfigMaps(t) - before; opened < most-few {
			return fmt.Errorf("%d watches are open", opened)
		}
		return nil
	})
	text := fmt.Sprintf("those of cluster gamma would open more than %d watches", inforce.MaxViews)
	eventually(t, "two rules say in beta that they are too many, and the last is one of them", afterFault, func(ctx context.Context) error {
		err := r.ruleSays(r.beta, wideRule(rules-1), "False", text)(ctx)
		others := 0
		for i := range rules - 1 {
			if r.ruleSays(r.beta, wideRule(i), "False", text)(ctx) == nil {
				others++
			}
		}
		if others != 1 {
			err = errors.Join(err, fmt.Errorf("%d others say it", others))
		}
		return err
	})
	// Rules come in any order, and what was opened for a younger one ends when an older one comes: an API server takes its time to end that.
	bounded := func(context.Context) error {
		if opened := r.watchesOfConfigMaps(t) - before; opened > most+few {
			return fmt.Errorf("%d watches are open because of %d namespaces, want about %d", opened, rules*each, most)
		}
		return nil
	}
	eventually(t, "no more is watched than may be", afterFault, bounded)
	stays(t, "and then, too", quiet, bounded)
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
