// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package informers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	"github.com/roster-mesh/roster/kube"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	listers "github.com/roster-mesh/roster/kube/client/listers/api/v1alpha1"
	"github.com/roster-mesh/roster/syncrules"
	"github.com/roster-mesh/roster/syncrules/skew"
)

const clusterIDIndex = "clusterID"

// Registry has the Clusters, rules and features of the local API server, and the metadata of the credentials in the
// agent's namespace. It is safe for concurrent use.
type Registry struct {
	Clusters listers.ClusterLister // also those without a clusterID
	Rules    listers.ResourceSyncRuleLister
	Features listers.ClusterFeatureLister

	informers    []*informer
	clusterIndex cache.Indexer
	secrets      cache.Indexer
	handlers     Handlers
}

// Handlers are called for each change, after the listers have it. Changes of one kind come in order, from one
// goroutine. before is the previous object, nil for one that is new or was deleted; now is the present one, or the last
// state of one that was deleted. A Cluster without a clusterID has none.
type Handlers struct {
	Cluster func(before, now *v1alpha1.Cluster)
	Rule    func(before, now *v1alpha1.ResourceSyncRule)
	Feature func(now *v1alpha1.ClusterFeature)
	Secret  func(now *kube.Secret) // without its data
}

// New returns a registry that watches nothing before Start. namespace is that of the agent.
func New(client *kube.Client, namespace string, log *slog.Logger) *Registry {
	r := &Registry{}
	byClusterID := cache.Indexers{clusterIDIndex: func(o any) ([]string, error) {
		if c, ok := o.(*v1alpha1.Cluster); ok && c.Spec.ClusterID != "" {
			return []string{string(c.Spec.ClusterID)}, nil
		}
		return nil, nil
	}}
	watched := func(kind schema.GroupVersionKind) kube.WatchOptions { return kube.WatchOptions{GVK: kind} }
	clusters := newInformer(watched(client.Clusters().Kind()), untrimmed[v1alpha1.Cluster], byClusterID, r.clusterChanged, log)
	rules := newInformer(watched(client.Rules().Kind()), untrimmed[v1alpha1.ResourceSyncRule], nil, r.ruleChanged, log)
	rules.decode = decodeRule
	features := newInformer(watched(client.Features().Kind()), untrimmed[v1alpha1.ClusterFeature], nil, r.featureChanged, log)
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

// Start starts the watches in group, until ctx ends. It returns when every handler has seen the first complete list.
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

// ByID returns the local Cluster objects with a clusterID. The first one is the one that counts: the copy that this
// agent wrote, else the oldest. More than one is a conflict, which their status shows.
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

// Name is the name of a cluster's Cluster object here, or its clusterID if there is none.
func (r *Registry) Name(clusterID string) string {
	for _, c := range r.ByID(clusterID) {
		return c.Name
	}
	return clusterID
}

// ByCredentialSecret returns the clusterIDs of the Cluster objects whose spec.authInfo names that Secret.
func (r *Registry) ByCredentialSecret(namespace, name string) (clusterIDs []string) {
	for _, item := range r.clusterIndex.List() {
		c, ok := item.(*v1alpha1.Cluster)
		if ok && c.Spec.ClusterID != "" && c.Spec.AuthInfo.SecretRef.Name == name && c.Spec.AuthInfo.SecretRef.Namespace == namespace {
			clusterIDs = append(clusterIDs, string(c.Spec.ClusterID))
		}
	}
	return clusterIDs
}

// SecretVersion is the resourceVersion of a credential in the agent's namespace; "" if it does not exist or has another
// type.
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
	if was != nil && was.Spec.ClusterID != c.Spec.ClusterID { // it has its clusterID only now, or was created again for another cluster
		r.tellCluster(nil, was)
		was = nil
	}
	r.tellCluster(was, c)
}

// tellCluster passes by a Cluster without a clusterID, which is only listed.
func (r *Registry) tellCluster(before, now *v1alpha1.Cluster) {
	if now.Spec.ClusterID != "" {
		r.handlers.Cluster(before, now)
	}
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

// untrimmed keeps all of an object.
// decodeRule decodes a rule, and marks it in memory if it has fields that this agent does not know: the CRD may be newer than
// the agent.
func decodeRule(u *unstructured.Unstructured) (metav1.Object, error) {
	rule, err := kube.Decode[v1alpha1.ResourceSyncRule](u)
	if err != nil {
		return nil, err
	}
	var known struct {
		Spec v1alpha1.ResourceSyncRuleSpec `json:"spec"`
	}
	unknown, err := skew.Unknown(map[string]any{"spec": u.Object["spec"]}, &known)
	if err != nil {
		return nil, fmt.Errorf("decode rule %s: %w", rule.Name, err)
	}
	if len(unknown) > 0 {
		metav1.SetMetaDataAnnotation(&rule.ObjectMeta, v1alpha1.AnnotationNotUnderstood, skew.Note(unknown))
	}
	return rule, nil
}

func untrimmed[T any](o *T) *T { return o }

// withoutData keeps the metadata and the type of a Secret, and drops its data.
func withoutData(secret *kube.Secret) *kube.Secret {
	return &kube.Secret{ObjectMeta: metav1.ObjectMeta{
		Name: secret.Name, Namespace: secret.Namespace, UID: secret.UID, ResourceVersion: secret.ResourceVersion,
	}, Type: secret.Type}
}

// Put puts objects into the listers and calls no handler. It is for tests.
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

// Drop takes an object out of the listers and calls no handler. It is for tests.
func (r *Registry) Drop(o metav1.Object) error {
	var errs []error
	for _, i := range r.informers {
		errs = append(errs, i.index.Delete(o))
	}
	return errors.Join(errs...)
}
