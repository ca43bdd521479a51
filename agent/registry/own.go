// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roster-mesh/roster/agent/informers"
	"github.com/roster-mesh/roster/agent/payload"
	"github.com/roster-mesh/roster/agent/store"
	"github.com/roster-mesh/roster/kube"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// ErrClusterName is returned when this cluster cannot have the given name.
var ErrClusterName = errors.New("cluster name")

// FindOwn returns this cluster's Cluster object, or nil if there is none and name is free. name is the one that it had
// before, or --cluster-name. Of several objects the one with that name counts, else the oldest; the others get the
// condition LocalConflict.
func FindOwn(ctx context.Context, client *kube.Client, clusterID, name string) (*v1alpha1.Cluster, error) {
	list, err := client.Clusters().List(ctx)
	if err != nil {
		return nil, fmt.Errorf("list clusters: %w", err)
	}
	return findOwn(list, clusterID, name)
}

func findOwn(list []*v1alpha1.Cluster, clusterID, name string) (*v1alpha1.Cluster, error) {
	var own, holder *v1alpha1.Cluster
	for _, c := range list {
		switch {
		case string(c.Spec.ClusterID) != clusterID:
			if c.Name == name {
				holder = c
			}
		case own == nil, c.Name == name, own.Name != name && c.CreationTimestamp.Before(&own.CreationTimestamp):
			own = c
		}
	}
	switch {
	case own != nil:
		return own, nil
	case name == "":
		return nil, fmt.Errorf("%w: --cluster-name is not given, and there is no Cluster object with spec.clusterID %s", ErrClusterName, clusterID)
	case holder != nil && holder.Spec.ClusterID == "":
		return nil, fmt.Errorf("%w: --cluster-name %s: the Cluster object of that name has no clusterID; if it stands for this cluster, set its spec.clusterID to %s, else choose another name", ErrClusterName, name, clusterID)
	case holder != nil:
		return nil, fmt.Errorf("%w: --cluster-name %s: the Cluster object of that name belongs to clusterID %s; choose another name", ErrClusterName, name, holder.Spec.ClusterID)
	}
	return nil, nil
}

// OwnOptions are the options of NewOwn. All fields but ClusterName and Labels are required.
type OwnOptions struct {
	ClusterID string
	Key       ed25519.PublicKey
	// ClusterName is the name of the object if it must be created; "" means that it must exist.
	ClusterName string
	// Labels are set on the object. Other labels stay.
	Labels map[string]string
	// Namespace is that of the agent. With ManageSecret, it has the Secret with the bootstrap credential.
	Namespace    string
	ManageSecret bool
	Server       kube.Server
	Client       *kube.Client
	Registry     *informers.Registry
	// Published is what this cluster published last.
	Published func() (*payload.Cluster, bool)
	// MeshEndpoints are the addresses at which members dial this cluster. recorded are those in the object.
	MeshEndpoints func(recorded []string) []string
	Log           *slog.Logger
}

// Own maintains this cluster's own Cluster object. It is safe for concurrent use.
type Own struct {
	// Renamed is called when the object has another name than before. It is set before the publisher runs.
	Renamed func()

	o    OwnOptions
	name atomic.Pointer[string]
}

// NewOwn returns an Own without a name. Ensure finds or creates the object.
func NewOwn(o OwnOptions) *Own { return &Own{o: o} }

// Name is the name of this cluster's Cluster object, "" before it has one.
func (o *Own) Name() string {
	if name := o.name.Load(); name != nil {
		return *name
	}
	return ""
}

// Cluster is the object in the informers, nil if there is none.
func (o *Own) Cluster() *v1alpha1.Cluster {
	c, err := o.o.Registry.Clusters.Get(o.Name())
	if err != nil || string(c.Spec.ClusterID) != o.o.ClusterID {
		return nil
	}
	return c
}

// Annotation reads the annotation that confirms a restore, from the API server itself.
func (o *Own) Annotation(ctx context.Context) (string, error) {
	own, err := o.o.Client.Clusters().Read(ctx, o.Name())
	if err != nil {
		return "", err
	}
	return own.Annotations[v1alpha1.AnnotationConfirmRestore], nil
}

// Ensure creates the object, or updates the fields that the agent manages; everything else belongs to the user. It also
// restores the object after somebody deleted it.
func (o *Own) Ensure(ctx context.Context) (*v1alpha1.Cluster, error) {
	clusters := o.o.Client.Clusters()
	var out *v1alpha1.Cluster
	err := store.OnConflict(func() error {
		have, err := FindOwn(ctx, o.o.Client, o.o.ClusterID, cmp.Or(o.Name(), o.o.ClusterName))
		if err != nil {
			return err
		}
		if have == nil {
			fresh := o.fresh()
			o.fill(fresh)
			out, err = clusters.Create(ctx, fresh)
			return err
		}
		want := have.DeepCopy()
		o.fill(want)
		if out = have; equality.Semantic.DeepEqual(have.Spec, want.Spec) && payload.SameMeta(have, want) {
			return nil
		}
		out, err = clusters.Change(ctx, have, want)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("write this cluster's Cluster object: %w", err)
	}
	o.setName(out.Name)
	return out, nil
}

func (o *Own) setName(name string) {
	was := o.name.Swap(&name)
	if was != nil && *was == name {
		return
	}
	if o.o.ClusterName != "" && name != o.o.ClusterName {
		o.o.Log.Warn("this cluster has a Cluster object already; --cluster-name is not used", "cluster", name, "flag", o.o.ClusterName)
	}
	if was != nil {
		o.Renamed()
	}
}

// complete reports whether the object has all fields that the agent manages.
func (o *Own) complete(own *v1alpha1.Cluster) bool {
	want := own.DeepCopy()
	o.fill(want)
	return equality.Semantic.DeepEqual(own.Spec, want.Spec) && payload.SameMeta(own, want)
}

// fresh is the object as it was last published, so that it is restored with its labels.
func (o *Own) fresh() *v1alpha1.Cluster {
	c := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: cmp.Or(o.Name(), o.o.ClusterName)}}
	if p, ok := o.o.Published(); ok {
		c.Labels, c.Annotations, c.Spec = p.Labels, p.Annotations, p.Spec
		delete(c.Annotations, v1alpha1.AnnotationConfirmRestore) // an annotation confirms once
	}
	return c
}

// fill sets the fields that the agent manages.
func (o *Own) fill(c *v1alpha1.Cluster) {
	if c.Labels == nil && len(o.o.Labels) > 0 {
		c.Labels = map[string]string{}
	}
	maps.Copy(c.Labels, o.o.Labels)
	c.Spec.ClusterID = types.UID(o.o.ClusterID)
	if c.Spec.Mesh == nil {
		c.Spec.Mesh = &v1alpha1.ClusterMesh{}
	}
	c.Spec.Mesh.PublicKey = o.o.Key
	c.Spec.Mesh.Endpoints = o.o.MeshEndpoints(c.Spec.Mesh.Endpoints)
	if asked, ok := c.Annotations[v1alpha1.AnnotationLeave]; ok && asked != v1alpha1.RequestKey(c.Spec.Mesh.PublicKey) {
		delete(c.Annotations, v1alpha1.AnnotationLeave) // done already, or about another key
	}
	if o.o.ManageSecret {
		c.Spec.AuthInfo.SecretRef = v1alpha1.NamespacedName{Name: c.Name, Namespace: o.o.Namespace}
	}
	endpoint := v1alpha1.KubernetesAPIEndpoint{ServerAddress: o.o.Server.Address, CABundle: o.o.Server.CABundle}
	c.Spec.KubernetesAPIEndpoints = withOwn(c.Spec.KubernetesAPIEndpoints, endpoint)
}

// withOwn returns entries with own in place of the first one for all clients, and before all others for all clients: a
// reader that takes the first one takes own.
func withOwn(entries []v1alpha1.KubernetesAPIEndpoint, own v1alpha1.KubernetesAPIEndpoint) []v1alpha1.KubernetesAPIEndpoint {
	entries = slices.Clone(entries)
	if i := slices.IndexFunc(entries, func(e v1alpha1.KubernetesAPIEndpoint) bool { return e.ClientNetwork == "" && e.ClientCIDR == "" }); i >= 0 {
		entries = slices.Delete(entries, i, i+1)
		if first := slices.IndexFunc(entries, kube.IsForAllClients); first < 0 || first > i {
			return slices.Insert(entries, i, own)
		}
	}
	if first := slices.IndexFunc(entries, kube.IsForAllClients); first >= 0 {
		return slices.Insert(entries, first, own)
	}
	return append(entries, own)
}
