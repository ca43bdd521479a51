// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/clusters"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/syncrules"
	"github.com/roster-mesh/roster/syncrules/consent"
)

// advice is about something that is right but perhaps not meant.
type advice struct{ path, text string }

// advise looks at a rule that compiles.
func advise(rule *v1alpha1.ResourceSyncRule, compiled *syncrules.Rule, policy consent.Policy) []advice {
	var out []advice
	add := func(path, format string, args ...any) { out = append(out, advice{path, fmt.Sprintf(format, args...)}) }
	spec, kind := &rule.Spec, rule.Spec.GVK.Kind
	if len(spec.Rules) == 0 {
		add("spec.rules", "is empty: the rule copies nothing")
	}
	for i := range spec.Rules {
		at := fmt.Sprintf("spec.rules[%d]", i)
		if len(spec.Rules[i].Matches) == 0 {
			add(at, "has no match: it selects every %s of every other cluster", kind)
		}
		for j := range spec.Rules[i].Matches {
			m := &spec.Rules[i].Matches[j]
			if ns := m.Key().Namespace; ns != "" && len(m.Namespaces) > 0 && !slices.Contains(m.Namespaces, ns) {
				add(fmt.Sprintf("%s.match[%d].namespaces", at, j), "does not hold %s, the namespace that the entry asks for as well: it selects nothing", ns)
			}
		}
	}
	if namespaces := namespacesOf(compiled.Scopes()); clusters.IsSecret(compiled.Kind()) && slices.Contains(namespaces, "") {
		add("spec.rules", "name no namespace: the other clusters would need the right to read every Secret of a source, its private key included, and no role is printed for that; "+
			"name namespaces, and one is printed for each")
	} else if i := slices.IndexFunc(namespaces, isPrivate); clusters.IsSecret(compiled.Kind()) && i >= 0 {
		add("spec.rules", "name %s: a namespace of that name may hold the private key of a cluster, and no role is printed for it", namespaces[i])
	}
	if spec.RuleDeletionPolicy == v1alpha1.DeletionDelete {
		add("spec.ruleDeletionPolicy", "Delete: when the rule is deleted, or edited so that it lets go of an object, copies are deleted in every cluster")
	}
	for _, gvk := range compiled.TargetKinds() {
		if policy.RefuseKind(gvk) != nil {
			path := "spec.groupVersionKind"
			if gvk != compiled.Kind() {
				path = "spec.rules"
			}
			add(path, "%s gives power over a cluster: each one refuses it unless its own chart values allow it", gvk.GroupKind().String())
		}
		if policy.RefuseAs(compiled.Kind().GroupKind(), gvk.GroupKind()) != nil {
			add("spec.rules", "turns Secrets into %s, which more people may read: each cluster refuses that unless its own chart values allow it", gvk.GroupKind().String())
		}
	}
	if spec.Targets != nil && equality.Semantic.DeepEqual(*spec.Targets, v1alpha1.ClusterSelector{}) {
		add("spec.targets", "is empty and so matches every cluster")
	}
	if spec.Paused {
		add("spec.paused", "is set: nothing is written until it is false again")
	}
	if spec.Mode == v1alpha1.ModeObserve {
		add("spec.mode", "Observe: nothing is written or deleted; the rule's status tells what would be")
	}
	if _, ok := rule.Annotations[v1alpha1.AnnotationSyncDisabled]; ok {
		add("metadata.annotations", "has %s: the rule is not published to other clusters", v1alpha1.AnnotationSyncDisabled)
	}
	return out
}
