// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package directory answers who a cluster is, where it is found, and whether it is in the group still. It has no state of
// its own: it reads the local Cluster objects and the replica. What the cluster itself has signed wins over the local
// object, which more people may edit than may read credentials.
package directory

import (
	"errors"
	"slices"

	"github.com/roster-mesh/roster/agent/informers"
	"github.com/roster-mesh/roster/agent/payload"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/replica"
)

// Directory is safe for use by any goroutine.
type Directory struct {
	Registry *informers.Registry
	Replica  *replica.Replica
	// Gone says that a cluster is not in the group any more: it left, was removed, or this cluster left the group that it
	// is in; and was not admitted again since.
	Gone func(clusterID string) bool
	// PrivateNamespace is where the agent keeps credentials that were issued to it, which no person has pasted.
	PrivateNamespace string
}

// ErrGone is returned when no Cluster object of a peer is there any more, or the peer is not in the group.
var ErrGone = errors.New("its Cluster object is gone")

// Published is what a cluster itself says of itself, if that is known.
func (d *Directory) Published(id string) (*payload.Cluster, bool) {
	e, ok := d.Replica.Lookup(payload.ClusterKey(id), id)
	if !ok || e.Status != replica.Live {
		return nil, false
	}
	p, err := payload.DecodeCluster(id, e.Payload)
	return p, err == nil
}

// Listed says that a cluster is to be read from: there is a Cluster object of it, and it is not gone from the group.
func (d *Directory) Listed(id string) bool { return len(d.Registry.ByID(id)) > 0 && !d.Gone(id) }

// Forgotten says that a cluster is gone from the group, or was put here by hand and is gone: no member tells of it. Who
// takes it in again takes it as it is then.
func (d *Directory) Forgotten(id string) bool {
	return d.Gone(id) || len(d.Registry.ByID(id)) == 0 && !d.spoke(id)
}

// spoke says that anything that the cluster itself published is known.
func (d *Directory) spoke(id string) bool {
	_, ok := d.Replica.Lookup(payload.ClusterKey(id), id)
	return ok || d.Complete(id)
}

// Complete says that the whole set of what a cluster published was known at some time.
func (d *Directory) Complete(id string) bool { return d.Replica.Progress(id).Completed > 0 }

// Disabled says that a person switched a cluster off here.
func (d *Directory) Disabled(id string) bool {
	return slices.ContainsFunc(d.Registry.ByID(id), func(c *v1alpha1.Cluster) bool {
		return payload.Has(c, v1alpha1.AnnotationClusterDisabled)
	})
}

// MeshEndpoints are the addresses at which a member's mesh port may be found: what it says of itself, then what
// was pasted here.
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

// Route is what a connection to a cluster's API server is made of, beside a credential that was issued to us.
type Route struct {
	Endpoints []v1alpha1.KubernetesAPIEndpoint
	Secret    v1alpha1.NamespacedName // the pasted credential
	Version   string                  // of that
	Disabled  bool
}

// Route returns the way to a cluster's API server; its error is ErrGone.
func (d *Directory) Route(id string) (Route, error) {
	copies := d.Registry.ByID(id)
	if len(copies) == 0 || d.Gone(id) {
		return Route{}, ErrGone
	}
	r := Route{Endpoints: copies[0].Spec.KubernetesAPIEndpoints, Disabled: d.Disabled(id)}
	for _, c := range copies {
		ref := c.Spec.AuthInfo.SecretRef
		if r.Secret.Name == "" && ref.Name != "" && ref.Namespace != d.PrivateNamespace {
			r.Secret, r.Version = ref, d.Registry.SecretVersion(ref)
		}
	}
	if p, ok := d.Published(id); ok {
		r.Endpoints = p.Spec.KubernetesAPIEndpoints
	}
	return r, nil
}

// Confirmation is what the owner of a cluster confirmed last of a restore, as its agent signed it; of one
// that is not in the mesh, what somebody noted on the Cluster object here.
func (d *Directory) Confirmation(id string) string {
	if p, ok := d.Published(id); ok {
		return p.Annotations[v1alpha1.AnnotationConfirmRestore]
	}
	for _, c := range d.Registry.ByID(id) {
		return c.Annotations[v1alpha1.AnnotationConfirmRestore]
	}
	return ""
}
