// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package join

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/cli"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/clusters"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// checkRole checks what --role says.
func checkRole(role string) error {
	switch role {
	case "", v1alpha1.RoleFull, v1alpha1.RoleEdge:
		return nil
	}
	return cli.Usagef("--role %q is not %s or %s", role, v1alpha1.RoleFull, v1alpha1.RoleEdge)
}

// roleIn is the role that a newcomer gets in one of the two clusters: the others are the newcomers, but where the first one has a new key.
func (o *Options) roleIn(target int) string {
	if newcomer := target == 0; newcomer != o.ReplaceKey {
		return o.Role
	}
	return ""
}

// keepRole asks for the role where the cluster is an edge that gets a new key: the role goes with the old one.
func (o *Options) keepRole(ctx context.Context, own *unstructured.Unstructured, b *clusters.Client) error {
	known, err := b.ClusterObjects(ctx)
	if err != nil {
		return err
	}
	edge := clusters.IsEdge(own) || slices.ContainsFunc(known, func(u unstructured.Unstructured) bool {
		return clusters.IDOf(&u) == clusters.IDOf(own) && clusters.IsEdge(&u)
	})
	if edge && o.Role == "" {
		return cli.Usagef("cluster %s is an edge, and its role goes with its key: say --role %s to keep it one, or --role %s", own.GetName(), v1alpha1.RoleEdge, v1alpha1.RoleFull)
	}
	return nil
}

// checkSides refuses to make an edge of a cluster that has a group in one that has none: the newcomer is the other one.
func (o *Options) checkSides(sources [2]*swapSource, targets [2]*swapTarget) error {
	if o.ReplaceKey || o.Role != v1alpha1.RoleEdge || targets[0].grouped || !targets[1].grouped {
		return nil
	}
	return cli.Usagef("--role edge is about the cluster of --peer-context, and %s has a group, while %s has none: to make an edge of %s, exchange the two contexts: --context %s --peer-context %s",
		sources[1].name(), sources[0].name(), sources[0].name(), sources[1].from.Context, sources[0].from.Context)
}

// admit has the target admit its cluster in a role, and refuses what the agents would not follow. own is the Cluster object of the
// cluster that admits.
func (t *swapTarget) admit(role string, own *unstructured.Unstructured) error {
	name := t.cluster.GetName()
	if clusters.IsEdge(own) && t.role == "" { // it may be none for others: who has the key of a member tells it what it is
		t.warning = "members say that cluster " + own.GetName() + " is an edge of its group, which admits nobody; those that take it for one do not take cluster " + name + ": then join that with a full member"
	}
	switch {
	case role == "":
		return nil
	case role == v1alpha1.RoleEdge && !knowsRoles(own):
		return t.to.Errorf("the agent of cluster %s knows no roles, and would admit cluster %s as a full member: upgrade it", own.GetName(), name)
	case role == v1alpha1.RoleEdge && t.role == v1alpha1.RoleFull:
		return t.to.Errorf("cluster %s is a full member already, and stays it: to make it an edge, remove it, and join it again with --replace-key --role edge", name)
	}
	annotations := t.cluster.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[v1alpha1.AnnotationRole] = role
	t.cluster.SetAnnotations(annotations)
	t.unchanged = t.unchanged && t.role == role
	return nil
}

// knowsRoles says whether the agent of a cluster does, by the own Cluster object of that.
func knowsRoles(own *unstructured.Unstructured) bool {
	version, _, _ := unstructured.NestedInt64(own.Object, "status", "schemaVersion")
	return version >= v1alpha1.SchemaRoles
}
