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

// ErrClusterName is returned when this cluster cannot have the name that it was given.
var ErrClusterName = errors.New("cluster name")

// FindOwn returns this cluster's Cluster object, or nil when it may be created under name, which is the one that it
// had, or that --cluster-name gives. Of several the one with that name counts, else the oldest; the others show
// LocalConflict.
func FindOwn(ctx context.Context, client *kube.Client, clusterID, name string) (*v1alpha1.Cluster, error) {
	list, err := client.Clusters().List(ctx)
	if err != nil {
		return nil, fmt.Errorf("list clusters: %w", err)
	}
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
	case holder != nil:
		return nil, fmt.Errorf("%w: --cluster-name %s: the Cluster object of that name belongs to clusterID %s; choose another name", ErrClusterName, name, holder.Spec.ClusterID)
	}
	return nil, nil
}

// OwnOptions are what this cluster's own Cluster object is made of. All fields are required, but for ClusterName and Labels.
type OwnOptions struct {
	ClusterID string
	Key       ed25519.PublicKey
	// ClusterName is the name to create the object under; "" means that there must be one.
	ClusterName string
	// Labels are set on the object, and others that it has stay.
	Labels map[string]string
	// Namespace is the agent's own, where the Secret is that peers are given, if ManageSecret is set.
	Namespace    string
	ManageSecret bool
	Server       kube.Server
	Client       *kube.Client
	Registry     *informers.Registry
	// Published is what this cluster itself published last.
	Published func() (*payload.Cluster, bool)
	// MeshEndpoints is where members dial this cluster; recorded is what the object says.
	MeshEndpoints func(recorded []string) []string
	Log           *slog.Logger
}

// Own keeps this cluster's own Cluster object. Any goroutine may use it.
type Own struct {
	// Renamed is called when the object has another name than before. It is set before the publisher runs.
	Renamed func()

	o    OwnOptions
	name atomic.Pointer[string]
}

// NewOwn returns the keeper of an object that has no name yet.
func NewOwn(o OwnOptions) *Own { return &Own{o: o} }

// Name is the name of this cluster's Cluster object, "" before it has one.
func (o *Own) Name() string {
	if name := o.name.Load(); name != nil {
		return *name
	}
	return ""
}

// Cluster is this cluster's Cluster object as the informers have it: the one of the name that the agent settled on, or
// nil.
func (o *Own) Cluster() *v1alpha1.Cluster {
	c, err := o.o.Registry.Clusters.Get(o.Name())
	if err != nil || string(c.Spec.ClusterID) != o.o.ClusterID {
		return nil
	}
	return c
}

// Annotation reads, from the API server itself, the annotation that confirms a restore.
func (o *Own) Annotation(ctx context.Context) (string, error) {
	own, err := o.o.Client.Clusters().Read(ctx, o.Name())
	if err != nil {
		return "", err
	}
	return own.Annotations[v1alpha1.AnnotationConfirmRestore], nil
}

// Ensure creates this cluster's Cluster object or brings the fields up to date that the agent
// answers for; everything else in it is the user's. It is also the repair of an object that was deleted: only
// leaving the group ends a Cluster, and then the same object goes on under another key.
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

// complete says that the object has all that the agent answers for.
func (o *Own) complete(own *v1alpha1.Cluster) bool {
	want := own.DeepCopy()
	o.fill(want)
	return equality.Semantic.DeepEqual(own.Spec, want.Spec) && payload.SameMeta(own, want)
}

// fresh is the object as it was last published, so that a deleted one comes back with its labels.
func (o *Own) fresh() *v1alpha1.Cluster {
	c := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: cmp.Or(o.Name(), o.o.ClusterName)}}
	if p, ok := o.o.Published(); ok {
		c.Labels, c.Annotations, c.Spec = p.Labels, p.Annotations, p.Spec
		delete(c.Annotations, v1alpha1.AnnotationConfirmRestore) // a confirmation is a person's word, once
	}
	return c
}

// fill gives the object what the agent answers for.
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
		delete(c.Annotations, v1alpha1.AnnotationLeave) // it was done, or is about another key
	}
	if o.o.ManageSecret {
		c.Spec.AuthInfo.SecretRef = v1alpha1.NamespacedName{Name: c.Name, Namespace: o.o.Namespace}
	}
	endpoint := v1alpha1.KubernetesAPIEndpoint{ServerAddress: o.o.Server.Address, CABundle: o.o.Server.CABundle}
	for i := range c.Spec.KubernetesAPIEndpoints {
		if c.Spec.KubernetesAPIEndpoints[i].ClientNetwork == "" {
			c.Spec.KubernetesAPIEndpoints[i] = endpoint
			return
		}
	}
	c.Spec.KubernetesAPIEndpoints = append(c.Spec.KubernetesAPIEndpoints, endpoint)
}
