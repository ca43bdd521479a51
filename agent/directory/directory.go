// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package directory looks up other clusters: who a cluster is, where its API server and its mesh port are, and whether
// it is still in the group. It has no state: it reads the local Cluster objects and the replica. What the cluster has
// signed itself wins over its local object, which more people may edit than may read credentials.
//
// The parts that need such a look-up (peers, rules, credentials, the mesh) share one Directory. Its methods send no
// request and may be called by any goroutine.
package directory

import (
	"errors"
	"slices"

	"github.com/roster-mesh/roster/agent/informers"
	"github.com/roster-mesh/roster/agent/payload"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/replica"
	"github.com/roster-mesh/roster/syncrules"
)

// Directory is safe for concurrent use.
type Directory struct {
	Registry *informers.Registry
	Replica  *replica.Replica
	// Gone reports whether a cluster is no longer in the group: it left, it was removed, or this cluster left the group
	// that it is in; and it was not admitted again.
	Gone func(clusterID string) bool
	// Pinned reports whether the key of a cluster is pinned. The pin outlives the replica, which may be in memory alone.
	Pinned func(clusterID string) bool
	// PrivateNamespace is where the agent keeps credentials that were issued to it. A Secret there was not pasted by a
	// person.
	PrivateNamespace string
	// Swapped reports whether a person pinned the key of a cluster here, and not a member that introduced the cluster.
	Swapped func(clusterID string) bool
}

// ErrGone is returned for a peer that has no Cluster object here, or that is not in the group.
var ErrGone = errors.New("its Cluster object is gone")

// Published is the payload that a cluster published for its own Cluster object, if it is known.
func (d *Directory) Published(id string) (*payload.Cluster, bool) {
	e, ok := d.Replica.Lookup(payload.ClusterKey(id), id)
	if !ok || e.Status != replica.Live {
		return nil, false
	}
	p, err := payload.DecodeCluster(id, e.Payload)
	return p, err == nil
}

// Listed reports whether the agent should connect to a cluster: it has a Cluster object here, and is in the group.
func (d *Directory) Listed(id string) bool { return len(d.Registry.ByID(id)) > 0 && !d.Gone(id) }

// Forgotten reports whether a cluster is gone from the group, or was never in it, has no Cluster object here and never
// published anything, as one that was added by hand and deleted. What was remembered of such a cluster must not count
// when it is added again. Of a member, an empty replica and a missing object say nothing: both are there again soon.
func (d *Directory) Forgotten(id string) bool {
	return d.Gone(id) || len(d.Registry.ByID(id)) == 0 && !d.Pinned(id) && !d.hasPublished(id)
}

// hasPublished reports whether anything that the cluster published is known.
func (d *Directory) hasPublished(id string) bool {
	_, ok := d.Replica.Lookup(payload.ClusterKey(id), id)
	return ok || d.Complete(id)
}

// Complete reports whether a complete set of what a cluster published has been known at some time.
func (d *Directory) Complete(id string) bool { return d.Replica.Progress(id).Completed > 0 }

// Disabled reports whether a cluster is disabled here by annotation.
func (d *Directory) Disabled(id string) bool {
	return slices.ContainsFunc(d.Registry.ByID(id), func(c *v1alpha1.Cluster) bool {
		return payload.Has(c, v1alpha1.AnnotationClusterDisabled)
	})
}

// MeshEndpoints are the addresses of a member's mesh port: first those that it published, then those in its Cluster
// objects here.
func (d *Directory) MeshEndpoints(id string) []string {
	var out []string
	add := func(spec *v1alpha1.ClusterMesh) {
		if spec == nil {
			return
		}
		for _, e := range spec.Endpoints {
			if !slices.Contains(out, e) {
				out = append(out, e)
			}
		}
	}
	if e, ok := d.Replica.Lookup(payload.ClusterKey(id), id); ok {
		if p, err := payload.DecodeCluster(id, e.Payload); err == nil {
			add(p.Spec.Mesh)
		}
	}
	for _, c := range d.Registry.ByID(id) {
		add(c.Spec.Mesh)
	}
	return out
}

// Route is what a connection to a cluster's API server needs, except for a credential that was issued to this cluster.
type Route struct {
	Endpoints []v1alpha1.KubernetesAPIEndpoint
	Secret    v1alpha1.NamespacedName // the pasted credential
	Version   string                  // resourceVersion of that Secret
	Disabled  bool
	Signed    bool // the cluster itself published Endpoints
	// Vouched says that a caBundle in Endpoints may prove the server that a pasted credential is sent to: a person here wrote
	// it, or the owner of a key signed it that a person pinned here. Who is only introduced may have invented the clusterID,
	// or taken that of a cluster which is not in the mesh.
	Vouched bool
}

// Route returns the route to a cluster's API server. Its error is ErrGone.
func (d *Directory) Route(id string) (Route, error) {
	copies := d.Registry.ByID(id)
	if len(copies) == 0 || d.Gone(id) {
		return Route{}, ErrGone
	}
	swapped := d.Swapped(id)
	r := Route{Endpoints: copies[0].Spec.KubernetesAPIEndpoints, Disabled: d.Disabled(id), Vouched: swapped || syncrules.Owner(copies[0]) == ""}
	for _, c := range copies {
		ref := c.Spec.AuthInfo.SecretRef
		if r.Secret.Name == "" && ref.Name != "" && ref.Namespace != d.PrivateNamespace {
			r.Secret, r.Version = ref, d.Registry.SecretVersion(ref)
		}
	}
	if p, ok := d.Published(id); ok {
		r.Endpoints, r.Signed, r.Vouched = p.Spec.KubernetesAPIEndpoints, true, swapped
	}
	return r, nil
}

// Confirmation is the last confirmation of a restore by a cluster: the one that its agent published, or for a cluster
// that is not in the mesh, the annotation on its Cluster object here.
func (d *Directory) Confirmation(id string) string {
	if p, ok := d.Published(id); ok {
		return p.Annotations[v1alpha1.AnnotationConfirmRestore]
	}
	for _, c := range d.Registry.ByID(id) {
		return c.Annotations[v1alpha1.AnnotationConfirmRestore]
	}
	return ""
}
