// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package informers

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	"github.com/roster-mesh/roster/kube"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	listers "github.com/roster-mesh/roster/kube/client/listers/api/v1alpha1"
	"github.com/roster-mesh/roster/syncrules"
)

const clusterIDIndex = "clusterID"

// Registry is the local API server's Clusters, rules and features, watched, with the Secrets that a swap
// may have put into the agent's namespace.
type Registry struct {
	Clusters listers.ClusterLister
	Rules    listers.ResourceSyncRuleLister
	Features listers.ClusterFeatureLister

	informers    []*informer
	clusterIndex cache.Indexer
	secrets      cache.Indexer
	handlers     Handlers
}

// Handlers are told of what changed, of each kind by one goroutine and in order. The listers have the change already.
// before is what was there, nil for an object that is new or gone; now is what is there, or of one that is gone its last
// state.
type Handlers struct {
	Cluster func(before, now *v1alpha1.Cluster)
	Rule    func(before, now *v1alpha1.ResourceSyncRule)
	Feature func(now *v1alpha1.ClusterFeature)
	Secret  func(now *kube.Secret) // without its data
}

// New returns a registry that watches nothing before Start. namespace is the agent's own.
func New(client *kube.Client, namespace string, log *slog.Logger) *Registry {
	r := &Registry{}
	byClusterID := cache.Indexers{clusterIDIndex: func(o any) ([]string, error) {
		if c, ok := o.(*v1alpha1.Cluster); ok {
			return []string{string(c.Spec.ClusterID)}, nil
		}
		return nil, nil
	}}
	watched := func(kind schema.GroupVersionKind) kube.WatchOptions { return kube.WatchOptions{GVK: kind} }
	clusters := newInformer(watched(client.Clusters().Kind()), whole[v1alpha1.Cluster], byClusterID, r.clusterChanged, log)
	rules := newInformer(watched(client.Rules().Kind()), whole[v1alpha1.ResourceSyncRule], nil, r.ruleChanged, log)
	features := newInformer(watched(client.Features().Kind()), whole[v1alpha1.ClusterFeature], nil, r.featureChanged, log)
	credentials := client.Secrets(namespace)
	secrets := newInformer(kube.WatchOptions{
		GVK: credentials.Kind(), Namespace: namespace,
		FieldSelector: fields.OneTermEqualSelector("type", v1alpha1.SecretType).String(),
	}, withoutData, nil, r.secretChanged, log)

	r.informers = []*informer{clusters, rules, features, secrets}
	r.clusterIndex, r.secrets = clusters.index, secrets.index
	r.Clusters = listers.NewClusterLister(clusters.index)
	r.Rules = listers.NewResourceSyncRuleLister(rules.index)
	r.Features = listers.NewClusterFeatureLister(features.index)
	return r
}

// Start keeps the registry until ctx ends, in group, and returns when every handler has seen the first complete
// list.
func (r *Registry) Start(ctx context.Context, group *errgroup.Group, client *kube.Client, handlers Handlers) error {
	r.handlers = handlers
	for _, i := range r.informers {
		group.Go(func() error { return i.run(ctx, client) })
	}
	for _, i := range r.informers {
		select {
		case <-i.synced:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// ByID returns the local Cluster objects that claim a clusterID, the one that counts first: our own copy, else
// the oldest. More than one is a conflict.
func (r *Registry) ByID(clusterID string) []*v1alpha1.Cluster {
	found, err := r.clusterIndex.ByIndex(clusterIDIndex, clusterID)
	if err != nil {
		return nil // the index exists: New made it
	}
	out := make([]*v1alpha1.Cluster, 0, len(found))
	for _, o := range found {
		if c, ok := o.(*v1alpha1.Cluster); ok {
			out = append(out, c)
		}
	}
	slices.SortFunc(out, func(a, b *v1alpha1.Cluster) int {
		if ours, others := syncrules.Owner(a) == clusterID, syncrules.Owner(b) == clusterID; ours != others {
			if ours {
				return -1
			}
			return 1
		}
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Name, b.Name))
	})
	return out
}

// Name is what a cluster is called here; its clusterID where it has no name yet.
func (r *Registry) Name(clusterID string) string {
	for _, c := range r.ByID(clusterID) {
		return c.Name
	}
	return clusterID
}

// NamingSecret returns the clusterIDs of the Cluster objects whose credential is in that Secret.
func (r *Registry) NamingSecret(namespace, name string) (clusterIDs []string) {
	for _, item := range r.clusterIndex.List() {
		c, ok := item.(*v1alpha1.Cluster)
		if ok && c.Spec.AuthInfo.SecretRef.Name == name && c.Spec.AuthInfo.SecretRef.Namespace == namespace {
			clusterIDs = append(clusterIDs, string(c.Spec.ClusterID))
		}
	}
	return clusterIDs
}

// SecretVersion is the version of a credential in the agent's namespace; "" when it is not there, or of
// another type.
func (r *Registry) SecretVersion(ref v1alpha1.NamespacedName) string {
	found, _, _ := r.secrets.GetByKey(ref.Namespace + "/" + ref.Name) // this index returns no error
	if secret, ok := found.(*kube.Secret); ok {
		return secret.ResourceVersion
	}
	return ""
}

func (r *Registry) clusterChanged(before, now any) {
	c, ok := now.(*v1alpha1.Cluster)
	if !ok {
		return
	}
	was, _ := before.(*v1alpha1.Cluster)
	if was != nil && was.Spec.ClusterID != c.Spec.ClusterID { // deleted and made again for another cluster
		r.handlers.Cluster(nil, was)
		was = nil
	}
	r.handlers.Cluster(was, c)
}

func (r *Registry) ruleChanged(before, now any) {
	if rule, ok := now.(*v1alpha1.ResourceSyncRule); ok {
		was, _ := before.(*v1alpha1.ResourceSyncRule)
		r.handlers.Rule(was, rule)
	}
}

func (r *Registry) featureChanged(_, now any) {
	if f, ok := now.(*v1alpha1.ClusterFeature); ok {
		r.handlers.Feature(f)
	}
}

func (r *Registry) secretChanged(_, now any) {
	if secret, ok := now.(*kube.Secret); ok {
		r.handlers.Secret(secret)
	}
}

// whole keeps all of an object.
func whole[T any](o *T) *T { return o }

// withoutData keeps of a credential only that it is there and which version it has.
func withoutData(secret *kube.Secret) *kube.Secret {
	return &kube.Secret{ObjectMeta: metav1.ObjectMeta{
		Name: secret.Name, Namespace: secret.Namespace, UID: secret.UID, ResourceVersion: secret.ResourceVersion,
	}, Type: secret.Type}
}

// Put puts objects into the listers and tells nobody: for tests of what reads them.
func (r *Registry) Put(objects ...metav1.Object) error {
	var errs []error
	for _, o := range objects {
		kind := 0
		switch o.(type) {
		case *v1alpha1.ResourceSyncRule:
			kind = 1
		case *v1alpha1.ClusterFeature:
			kind = 2
		case *kube.Secret:
			kind = 3
		}
		errs = append(errs, r.informers[kind].index.Update(o))
	}
	return errors.Join(errs...)
}

// Drop takes an object out of the listers and tells nobody: for tests of what reads them.
func (r *Registry) Drop(o metav1.Object) error {
	var errs []error
	for _, i := range r.informers {
		errs = append(errs, i.index.Delete(o))
	}
	return errors.Join(errs...)
}
