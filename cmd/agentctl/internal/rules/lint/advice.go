// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

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
	if clusters.IsSecret(compiled.Kind()) && slices.ContainsFunc(compiled.Scopes(), func(s syncrules.Scope) bool { return s.Namespace == "" }) {
		add("spec.rules", "name no namespace: the other clusters need the right to read every Secret of a source; naming namespaces avoids that")
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

// rightsOf are the ClusterRoles that a rule needs beyond what the chart grants; "" where that is enough.
func rightsOf(rule *v1alpha1.ResourceSyncRule, compiled *syncrules.Rule, namespace string) (reader, writer string) {
	scopes := compiled.Scopes()
	granted := isNamespaceOrNode(compiled.Kind()) || clusters.IsSecret(compiled.Kind()) &&
		!slices.ContainsFunc(scopes, func(s syncrules.Scope) bool { return s.Namespace != namespace })
	if len(scopes) > 0 && !granted {
		reader = clusterRole(rule.Name+"-read", v1alpha1.LabelReaderAggregated, []grant{{gvk: compiled.Kind(), verbs: "get, list, watch"}})
	}
	var grants []grant
	for _, gvk := range compiled.TargetKinds() {
		granted := clusters.IsSecret(gvk) && !slices.ContainsFunc(compiled.TargetScopes(), func(s syncrules.TargetScope) bool {
			return s.GVK == gvk && s.Namespace != namespace
		})
		if !granted {
			grants = append(grants, grant{gvk: gvk, verbs: "get, list, watch, create, update, delete", status: syncsStatus(rule)})
		}
	}
	if compiled.CreatesNamespace() {
		grants = append(grants, grant{gvk: schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}, verbs: "create"})
	}
	if len(grants) > 0 {
		writer = clusterRole(rule.Name+"-write", v1alpha1.LabelControllerAggregated, grants)
	}
	return reader, writer
}

// isNamespaceOrNode are the kinds beside the registry's own that readers may always read.
func isNamespaceOrNode(gvk schema.GroupVersionKind) bool {
	return gvk.Group == "" && (gvk.Kind == "Namespace" || gvk.Kind == "Node")
}

type grant struct {
	gvk    schema.GroupVersionKind
	verbs  string
	status bool // the status subresource, too
}

func syncsStatus(rule *v1alpha1.ResourceSyncRule) bool {
	return slices.ContainsFunc(rule.Spec.Rules, func(r v1alpha1.SyncRule) bool { return r.Mutations.SyncStatus })
}

// clusterRole is the snippet to apply. The resource of a kind that is not Kubernetes' own is its usual plural,
// since without a cluster nobody can be asked; the snippet says so.
func clusterRole(name, label string, grants []grant) string {
	var b strings.Builder
	fmt.Fprintf(&b, "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata:\n  name: roster-%s\n  labels: {%s: \"true\"}\nrules:\n", name, label)
	for _, g := range grants {
		plural, _ := meta.UnsafeGuessKindToResource(g.gvk)
		resources := plural.Resource
		if g.status {
			resources += ", " + plural.Resource + "/status"
		}
		fmt.Fprintf(&b, "- {apiGroups: [%q], resources: [%s], verbs: [%s]}", g.gvk.Group, resources, g.verbs)
		if !isBuiltIn(g.gvk.Group) {
			fmt.Fprintf(&b, " # if %s is the plural of %s", plural.Resource, g.gvk.Kind)
		}
		fmt.Fprintln(&b)
	}
	return b.String()
}

// isBuiltIn tells whether the kinds of a group are Kubernetes' own. The scheme of client-go knows, and links all of them.
func isBuiltIn(group string) bool {
	return slices.Contains([]string{
		"", "admissionregistration.k8s.io", "apps", "authentication.k8s.io", "authorization.k8s.io", "autoscaling", "batch", "certificates.k8s.io",
		"coordination.k8s.io", "discovery.k8s.io", "events.k8s.io", "flowcontrol.apiserver.k8s.io", "internal.apiserver.k8s.io",
		"networking.k8s.io", "node.k8s.io", "policy", "rbac.authorization.k8s.io", "resource.k8s.io", "scheduling.k8s.io", "storage.k8s.io",
		"storagemigration.k8s.io",
	}, group)
}
