// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/clusters"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/syncrules"
)

// Verbs that sources and copies of a kind need.
const (
	toRead  = "get, list, watch"
	toWrite = "get, list, watch, create, update, delete"
)

// rightsOf are the roles that a rule needs beyond what the chart grants; "" where that is enough, and where nothing is to be
// suggested: with the Secrets of all namespaces of a source, every member could act as that cluster, by its private key.
func rightsOf(rule *v1alpha1.ResourceSyncRule, compiled *syncrules.Rule, namespace string) (reader, writer string) {
	scopes := namespacesOf(compiled.Scopes())
	switch {
	case len(scopes) == 0 || isNamespaceOrNode(compiled.Kind()):
	case clusters.IsSecret(compiled.Kind()):
		reader = roles(rule.Name+"-read", scopes, namespace, toRead, fmt.Sprintf("apiGroup: rbac.authorization.k8s.io, kind: Group, name: %q", v1alpha1.ReadersGroup(namespace)))
	default:
		reader = clusterRole(rule.Name+"-read", v1alpha1.LabelReaderAggregated, []grant{{gvk: compiled.Kind(), verbs: toRead}})
	}
	var grants []grant
	for _, gvk := range compiled.TargetKinds() {
		var targets []string
		for _, s := range compiled.TargetScopes() {
			if s.GVK == gvk {
				targets = append(targets, s.Namespace)
			}
		}
		if clusters.IsSecret(gvk) && !slices.Contains(targets, "") {
			writer = roles(rule.Name+"-write", targets, namespace, toWrite, fmt.Sprintf("kind: ServiceAccount, name: %q, namespace: %q", v1alpha1.DefaultServiceAccount, namespace))
		} else { // also for Secrets of all namespaces: a rule that writes them can do with no less, and no other cluster gets that
			grants = append(grants, grant{gvk: gvk, verbs: toWrite, status: syncsStatus(rule)})
		}
	}
	if compiled.CreatesNamespace() {
		grants = append(grants, grant{gvk: schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}, verbs: "create"})
	}
	if len(grants) > 0 {
		writer = joined(writer, clusterRole(rule.Name+"-write", v1alpha1.LabelControllerAggregated, grants))
	}
	return reader, writer
}

// namespacesOf are the namespaces of scopes, "" for all.
func namespacesOf(scopes []syncrules.Scope) (out []string) {
	for _, s := range scopes {
		out = append(out, s.Namespace)
	}
	return out
}

// isPrivate says whether a namespace may hold the private key of a cluster: that of a source may have any name with this end.
func isPrivate(namespace string) bool {
	return strings.HasSuffix(namespace, v1alpha1.PrivateNamespace(""))
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

// roles are the snippet to apply for Secrets: a Role and a RoleBinding in each namespace, but in the agent's own, where the
// chart grants it, and where a private key may be.
func roles(name string, namespaces []string, own, verbs, subject string) (out string) {
	for _, namespace := range namespaces {
		if namespace == "" || namespace == own || isPrivate(namespace) {
			continue
		}
		const metadata = "metadata: {name: roster-%s, namespace: %q}\n"
		out = joined(out, fmt.Sprintf("apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\n"+metadata+"rules:\n- {apiGroups: [\"\"], resources: [secrets], verbs: [%s]}\n",
			name, namespace, verbs))
		out = joined(out, fmt.Sprintf("apiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\n"+metadata+
			"roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: roster-%s}\nsubjects:\n- {%s}\n", name, namespace, name, subject))
	}
	return out
}

// joined is one snippet of two; either may be "".
func joined(a, b string) string {
	if a != "" && b != "" {
		return a + "---\n" + b
	}
	return a + b
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
