// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roster-mesh/roster/e2e/harness"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/syncrules/engine/selections"
)

// renamed is the spec of a rule that gives each copy another name than its source, in clusters of a tier.
func renamed(tier, label, prefix string) string {
	return ofConfigMaps + "targets: {matchLabels: {tier: " + tier + "}}, rules: [{" + forLabel(label) +
		", mutations: {overrides: [{path: /metadata/name, value: '" + prefix + "-{{ .Object.GetName }}'}]}}]"
}

// TestRulesThatRename: a hostile member has many rules, each of which gives what a third one has another name in another cluster. Its agent keeps some of
// them in force, and the others say why not and what to do. The third one's own rule for the same objects makes its copies, before and after; and a
// rule that is edited to select less is in force at once.
func TestRulesThatRename(t *testing.T) {
	const limit, objects, rules = 64 << 20, 100, 60
	const room = limit / 100 * 90 / 10 / selections.PerPlace // see agent/tuning and syncrules/engine/bounds
	r := newRoom(t)
	r.confine(t, limit, "renamed")
	for i := range objects {
		put(t, r.alpha, configMaps, r.object(configMaps, fmt.Sprint("shared-", i), "shared", "1"))
	}
	r.rule(t, r.alpha, "honest", renamed("renamed", "shared", "honest"))
	for i := range rules {
		r.rule(t, r.gamma, fmt.Sprint("bad-", i), renamed("renamed", "shared", fmt.Sprint("bad-", i)))
	}
	t.Cleanup(func() {
		for i := range rules {
			_ = r.gamma.Dynamic.Resource(harness.Rules()).Delete(lasting(t), fmt.Sprint(r.name, "-bad-", i), metav1.DeleteOptions{})
		}
	})
	last := fmt.Sprint("bad-", rules-1)
	eventually(t, "the last rule is not in force", afterFault, r.ruleSays(r.beta, last, "False", "rules of cluster gamma have used up their share with objects of cluster alpha"))
	eventually(t, "it says what to do", within, r.ruleSays(r.beta, last, "False", "narrow what the rule matches, or raise the memory limit of the agent here"))
	eventually(t, "all copies of the honest rule are there", afterFault, r.renamedCopies(objects, objects, "honest-"))
	eventually(t, "some of the others are there, and no more than there is room for", afterFault, r.renamedCopies(objects, room, "bad-"))
	put(t, r.alpha, configMaps, r.object(configMaps, "shared-7", "shared", "2"))
	value := func(name string) func(context.Context) error {
		return func(ctx context.Context) error {
			u, err := get(ctx, r.beta, configMaps, r.name, name)
			if err == nil && !strings.Contains(fmt.Sprint(u.Object["data"]), "2") {
				err = fmt.Errorf("%s has %v", name, u.Object["data"])
			}
			return err
		}
	}
	eventually(t, "a change arrives by the honest rule", afterFault, value("honest-shared-7"))
	put(t, r.alpha, configMaps, r.object(configMaps, "single", "single", "2"))
	r.rule(t, r.gamma, last, renamed("renamed", "single", "narrow"))
	eventually(t, "a rule that selects less is in force at once", afterFault, value("narrow-single"))
}

// renamedCopies says that so many copies in beta have names with the prefix.
func (r *room) renamedCopies(least, most int, prefix string) func(context.Context) error {
	return func(ctx context.Context) error {
		list, err := r.beta.Dynamic.Resource(configMaps).Namespace(r.name).List(ctx, metav1.ListOptions{LabelSelector: v1alpha1.LabelOwnerClusterID})
		if err != nil {
			return err
		}
		n := 0
		for i := range list.Items {
			if strings.HasPrefix(list.Items[i].GetName(), prefix) {
				n++
			}
		}
		if n < least || n > most {
			return fmt.Errorf("there are %d copies named %s*, want %d to %d", n, prefix, least, most)
		}
		return nil
	}
}

// renames has gamma give thousands of its objects other names, by as many rules as may be in force, and change all of them again and again. Without a
// bound beta's agent would know two gigabytes of places.
func (r *room) renames(t *testing.T, quietly latency) {
	const objects, rules = 4000, 250
	each := func(ctx context.Context, do func(ctx context.Context, name string) error) error {
		group, ctx := errgroup.WithContext(ctx)
		group.SetLimit(4)
		for i := range objects {
			group.Go(func() error { return do(ctx, fmt.Sprint("renamed-", i)) })
		}
		return group.Wait()
	}
	client := r.gamma.Dynamic.Resource(configMaps).Namespace(r.name)
	if err := each(lasting(t), func(ctx context.Context, name string) error {
		_, err := client.Create(ctx, r.object(configMaps, name, "renamed", "1"), metav1.CreateOptions{})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	spec := func(n, i int) map[string]any {
		return map[string]any{
			"groupVersionKind": map[string]any{"version": "v1", "kind": "ConfigMap"}, "targets": map[string]any{"matchLabels": map[string]any{"tier": "flooded"}},
			"rules": []any{map[string]any{
				"match":     []any{map[string]any{"namespaces": []any{r.name}, "labels": []any{map[string]any{"matchLabels": map[string]any{"for": "renamed"}}}}},
				"mutations": map[string]any{"overrides": []any{map[string]any{"path": "/metadata/name", "value": fmt.Sprintf("bad-%d-%d-{{ .Object.GetName }}", i, n)}}},
			}},
		}
	}
	all := r.gamma.Dynamic.Resource(harness.Rules())
	r.play(t, quietly, func(ctx context.Context, n int) error {
		for i := range rules {
			rule := &unstructured.Unstructured{Object: map[string]any{"spec": spec(n, i)}}
			rule.SetAPIVersion(v1alpha1.SchemeGroupVersion.String())
			rule.SetKind("ResourceSyncRule")
			rule.SetName(fmt.Sprint(r.name, "-bad-", i))
			_, err := all.Apply(ctx, rule.GetName(), rule, metav1.ApplyOptions{FieldManager: "flood", Force: true})
			if err != nil {
				return err
			}
		}
		return each(ctx, func(ctx context.Context, name string) error {
			_, err := client.Patch(ctx, name, types.MergePatchType, fmt.Appendf(nil, `{"data":{"v":"%d"}}`, n), metav1.PatchOptions{})
			return err
		})
	})
	for i := range rules {
		if err := all.Delete(lasting(t), fmt.Sprint(r.name, "-bad-", i), metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	}
	copies := r.beta.Dynamic.Resource(configMaps).Namespace(r.name)
	theirs := metav1.ListOptions{LabelSelector: v1alpha1.LabelOwnerClusterID + "=" + clusterID(t, r.gamma)}
	list, err := copies.List(lasting(t), theirs)
	if err != nil {
		t.Fatal(err)
	}
	if t.Logf("beta has %d copies of them", len(list.Items)); len(list.Items) < objects {
		t.Error("it is no flood: the rules were not in force")
	}
	eventually(t, "the last of the rules is gone in beta", 5*afterFault, absent(r.beta, harness.Rules(), "", fmt.Sprint(r.name, "-bad-", rules-1)))
	// They are orphans now, and a person deletes them: there is room for what the play after this one leaves behind.
	if err := copies.DeleteCollection(lasting(t), metav1.DeleteOptions{}, theirs); err != nil {
		t.Error(err)
	}
}
