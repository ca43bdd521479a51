// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/syncrules"
)

// role reads from a Cluster object what a person here makes of that cluster: an edge, or more than that, which widens what it is.
// Where nothing is said, an edge stays one. A value that is not known means edge.
func (m *Membership) role(c *v1alpha1.Cluster) (edge, widens bool) {
	id := string(c.Spec.ClusterID)
	_, known := m.trust.Key(id)
	is := known && m.trust.IsEdge(id)
	switch role := c.Annotations[v1alpha1.AnnotationRole]; {
	case role == v1alpha1.RoleFull:
		return false, is
	case role == "":
		recorded := !known && syncrules.Owner(c) == id && c.Status.Role == v1alpha1.RoleEdge // the pin is lost
		return is || recorded, false
	case role != v1alpha1.RoleEdge:
		m.refuse(c, "RoleRefused", "the annotation "+v1alpha1.AnnotationRole+" must be "+v1alpha1.RoleFull+" or "+v1alpha1.RoleEdge+"; other values are taken for "+v1alpha1.RoleEdge)
	case known && !is:
		m.refuse(c, "RoleRefused", "the annotation "+v1alpha1.AnnotationRole+" has no effect: the cluster is a full member, and stays it; remove it, and join it again under a new key with --role "+v1alpha1.RoleEdge)
	}
	return true, false
}
