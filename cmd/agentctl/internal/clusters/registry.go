// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// ClusterResource is where Clusters are served.
func ClusterResource() schema.GroupVersionResource {
	return v1alpha1.SchemeGroupVersion.WithResource("clusters")
}

// RuleResource is where ResourceSyncRules are served.
func RuleResource() schema.GroupVersionResource {
	return v1alpha1.SchemeGroupVersion.WithResource("resourcesyncrules")
}

// NotInstalledError says that a CRD is missing.
type NotInstalledError struct{ Kind string }

func (e *NotInstalledError) Error() string {
	return "the " + e.Kind + " CRD is not installed; install the chart (charts/agent) there first"
}

// ClusterObjects lists the Clusters with all their fields, in name order.
func (c *Client) ClusterObjects(ctx context.Context) ([]unstructured.Unstructured, error) {
	return c.list(ctx, ClusterResource(), "Cluster", "clusters")
}

// MemberObjects is ClusterObjects without those that have no clusterID: they are only listed, and join nothing.
func (c *Client) MemberObjects(ctx context.Context) ([]unstructured.Unstructured, error) {
	all, err := c.ClusterObjects(ctx)
	return slices.DeleteFunc(all, func(u unstructured.Unstructured) bool { return IDOf(&u) == "" }), err
}

// Clusters lists the Clusters, in name order.
func (c *Client) Clusters(ctx context.Context) ([]*v1alpha1.Cluster, error) {
	return c.decodeClusters(c.ClusterObjects(ctx))
}

// Members is Clusters without those that have no clusterID.
func (c *Client) Members(ctx context.Context) ([]*v1alpha1.Cluster, error) {
	return c.decodeClusters(c.MemberObjects(ctx))
}

func (c *Client) decodeClusters(all []unstructured.Unstructured, err error) ([]*v1alpha1.Cluster, error) {
	if err != nil {
		return nil, err
	}
	out := make([]*v1alpha1.Cluster, 0, len(all))
	for i := range all {
		cluster, err := DecodeCluster(&all[i])
		if err != nil {
			return nil, c.Errorf("%w", err)
		}
		out = append(out, cluster)
	}
	return out, nil
}

// Rules lists the ResourceSyncRules, in name order.
func (c *Client) Rules(ctx context.Context) ([]*v1alpha1.ResourceSyncRule, error) {
	all, err := c.list(ctx, RuleResource(), "ResourceSyncRule", "rules")
	if err != nil {
		return nil, err
	}
	out := make([]*v1alpha1.ResourceSyncRule, 0, len(all))
	for i := range all {
		var rule v1alpha1.ResourceSyncRule
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(all[i].Object, &rule); err != nil {
			return nil, c.Errorf("read rule %s: %w", all[i].GetName(), err)
		}
		out = append(out, &rule)
	}
	return out, nil
}

func (c *Client) list(ctx context.Context, resource schema.GroupVersionResource, kind, what string) ([]unstructured.Unstructured, error) {
	list, err := c.Dynamic.Resource(resource).List(ctx, metav1.ListOptions{})
	if err != nil {
		if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
			return nil, c.Errorf("%w", &NotInstalledError{kind})
		}
		return nil, c.Errorf("list %s: %w", what, err)
	}
	slices.SortFunc(list.Items, func(a, b unstructured.Unstructured) int { return strings.Compare(a.GetName(), b.GetName()) })
	return list.Items, nil
}

// Local finds the Cluster object that stands for the cluster itself.
func (c *Client) Local(ctx context.Context) (*unstructured.Unstructured, error) {
	id, err := c.ClusterID(ctx)
	if err != nil {
		return nil, err
	}
	all, err := c.ClusterObjects(ctx)
	if err != nil {
		return nil, err
	}
	var found []*unstructured.Unstructured
	for i := range all {
		if IDOf(&all[i]) == id {
			found = append(found, &all[i])
		}
	}
	switch len(found) {
	case 0:
		return nil, c.Errorf("no Cluster object of this cluster itself: the agent is not installed there, or has not started yet")
	case 1:
		return found[0], nil
	default:
		return nil, c.Errorf("the Cluster objects %s and %s both claim to be this cluster (%s); delete the wrong one",
			found[0].GetName(), found[1].GetName(), id)
	}
}

// DecodeCluster reads an object into the API type that this agentctl was built with.
func DecodeCluster(u *unstructured.Unstructured) (*v1alpha1.Cluster, error) {
	var c v1alpha1.Cluster
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &c); err != nil {
		return nil, fmt.Errorf("read cluster %s: %w", u.GetName(), err)
	}
	return &c, nil
}

// IDOf is the clusterID of a Cluster object.
func IDOf(cluster *unstructured.Unstructured) string {
	id, _, _ := unstructured.NestedString(cluster.Object, "spec", "clusterID")
	return id
}

// RoleOf is the role of a cluster in the group, as the agent says that has the object; "" where it does not tell.
func RoleOf(cluster *unstructured.Unstructured) string {
	role, _, _ := unstructured.NestedString(cluster.Object, "status", "role")
	return role
}

// IsEdge says whether that is edge: the cluster neither admits nor removes others.
func IsEdge(cluster *unstructured.Unstructured) bool { return RoleOf(cluster) == v1alpha1.RoleEdge }

// MeshKey is the public key of a Cluster object, as it is written; "" for none.
func MeshKey(cluster *unstructured.Unstructured) string {
	key, _, _ := unstructured.NestedString(cluster.Object, "spec", "mesh", "publicKey")
	return key
}

// IsSecret tells whether a kind is that of Secrets.
func IsSecret(gvk schema.GroupVersionKind) bool { return gvk.Group == "" && gvk.Kind == "Secret" }
