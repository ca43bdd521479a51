// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/informers"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/kube/client/informers/externalversions"
	listers "github.com/roster-mesh/roster/kube/client/listers/api/v1alpha1"
	"github.com/roster-mesh/roster/replica"
	"github.com/roster-mesh/roster/syncrules"
)

const clusterIDIndex = "clusterID"

// registry is the local API server's Clusters, rules and features, watched, with the Secrets that a swap
// may have put into the agent's namespace. Objects in its listers are shared: never change one.
type registry struct {
	session   *session
	factories []interface {
		Start(<-chan struct{})
		Shutdown()
	}
	clusterIndex cache.Indexer
	clusters     listers.ClusterLister
	rules        listers.ResourceSyncRuleLister
	features     listers.ClusterFeatureLister
	secrets      corelisters.SecretLister
	handlers     []cache.ResourceEventHandlerRegistration
}

func newRegistry(s *session) (*registry, error) {
	r := &registry{session: s}
	objects := externalversions.NewSharedInformerFactoryWithOptions(s.client.Registry, 0, externalversions.WithTransform(withoutManagedFields))
	api := objects.ClusterRegistry().V1alpha1()
	credentials := informers.NewSharedInformerFactoryWithOptions(s.client.Kube, 0,
		informers.WithNamespace(s.options.Namespace),
		informers.WithTransform(func(o any) (any, error) { return withoutData(o), nil }),
		informers.WithTweakListOptions(func(o *metav1.ListOptions) {
			o.FieldSelector = fields.OneTermEqualSelector("type", v1alpha1.SecretType).String()
		}))
	r.factories = append(r.factories, objects, credentials)

	clusters := api.Clusters().Informer()
	err := clusters.AddIndexers(cache.Indexers{clusterIDIndex: func(o any) ([]string, error) {
		if c, ok := o.(*v1alpha1.Cluster); ok {
			return []string{string(c.Spec.ClusterID)}, nil
		}
		return nil, nil
	}})
	if err != nil {
		return nil, fmt.Errorf("index clusters: %w", err)
	}
	r.clusterIndex = clusters.GetIndexer()
	r.secrets = credentials.Core().V1().Secrets().Lister()
	r.clusters, r.rules, r.features = api.Clusters().Lister(), api.ResourceSyncRules().Lister(), api.ClusterFeatures().Lister()

	for informer, changed := range map[cache.SharedIndexInformer]func(before, now any){
		clusters:                                     r.clusterChanged,
		api.ResourceSyncRules().Informer():           r.ruleChanged,
		api.ClusterFeatures().Informer():             r.featureChanged,
		credentials.Core().V1().Secrets().Informer(): r.secretChanged,
	} {
		handler, err := informer.AddEventHandler(cache.ResourceEventHandlerDetailedFuncs{
			AddFunc: func(o any, first bool) {
				if first {
					r.saw(o, (*versions).listed)
				} else {
					r.saw(o, (*versions).saw)
				}
				changed(nil, o)
			},
			UpdateFunc: func(before, now any) {
				r.saw(now, (*versions).saw)
				changed(before, now)
			},
			DeleteFunc: func(o any) {
				if gone, ok := o.(cache.DeletedFinalStateUnknown); ok {
					o = gone.Obj
				}
				r.saw(o, (*versions).sawGone)
				changed(nil, o)
			},
		})
		if err != nil {
			return nil, fmt.Errorf("watch the local API server: %w", err)
		}
		r.handlers = append(r.handlers, handler)
	}
	return r, nil
}

// saw hands the version of an object to what watches over their order.
func (r *registry) saw(o any, take func(*versions, replica.Kind, string)) {
	kind := replica.KindCluster
	switch o.(type) {
	case *v1alpha1.Cluster:
	case *v1alpha1.ResourceSyncRule:
		kind = replica.KindRule
	case *v1alpha1.ClusterFeature:
		kind = replica.KindFeature
	default:
		return
	}
	if object, err := meta.Accessor(o); err == nil {
		take(&r.session.restore.versions, kind, object.GetResourceVersion())
	}
}

// start returns when every handler has seen the first complete list.
func (r *registry) start(ctx context.Context) error {
	for _, f := range r.factories {
		f.Start(ctx.Done())
	}
	for _, h := range r.handlers {
		if !cache.WaitForCacheSync(ctx.Done(), h.HasSynced) {
			return ctx.Err()
		}
	}
	return nil
}

// byID returns the local Cluster objects that claim a clusterID, the one that counts first: our own copy, else
// the oldest. More than one is a conflict.
func (r *registry) byID(clusterID string) []*v1alpha1.Cluster {
	found, err := r.clusterIndex.ByIndex(clusterIDIndex, clusterID)
	if err != nil {
		return nil // the index exists: newRegistry made it
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

// ownCluster is this cluster's Cluster object: the one of the name that the agent settled on, or nil.
func (r *registry) ownCluster() *v1alpha1.Cluster {
	c, err := r.clusters.Get(r.session.ownName())
	if err != nil || string(c.Spec.ClusterID) != r.session.clusterID {
		return nil
	}
	return c
}

// clusterChanged also pins: a Cluster object that a person put here is the trust anchor (a swap).
func (r *registry) clusterChanged(before, now any) {
	c, ok := now.(*v1alpha1.Cluster)
	if !ok {
		return
	}
	was, _ := before.(*v1alpha1.Cluster)
	if was != nil && was.Spec.ClusterID != c.Spec.ClusterID { // deleted and made again for another cluster
		r.clusterChanged(nil, was)
		was = nil
	}
	id, s := string(c.Spec.ClusterID), r.session
	s.statuses.add(id)
	s.statuses.add(s.clusterID) // it counts the peers that are synced
	if was != nil && was.UID == c.UID && was.Generation == c.Generation && sameMeta(was, c) {
		if id == s.clusterID {
			s.publish.add(clusterKey(id)) // what the cluster reports of itself is published too
		}
		return // its status alone: nothing else depends on that
	}
	if id == s.clusterID {
		s.publish.add(clusterKey(id))
		s.engine.ClusterChanged()
		return
	}
	s.swapped(c)
	s.incoming.add(clusterKey(id))
	s.peers.changed(id)
	s.offers.add(id) // its name may be another
}

func (r *registry) ruleChanged(before, o any) {
	rule, ok := o.(*v1alpha1.ResourceSyncRule)
	if !ok {
		return
	}
	key := replica.Key{Kind: replica.KindRule, Name: rule.Name}
	was, _ := before.(*v1alpha1.ResourceSyncRule)
	current, err := r.rules.Get(rule.Name)
	if err != nil || was != nil && older(rule, was) {
		r.session.unsettle(rule) // the engine is told when it is certain: settleRule
	} else {
		r.session.settled(rule.Name)
		r.session.engine.SetRule(current)
	}
	r.session.publish.add(key)
	r.session.incoming.add(key)
}

func (r *registry) featureChanged(_, o any) {
	if f, ok := o.(*v1alpha1.ClusterFeature); ok {
		r.session.publish.add(replica.Key{Kind: replica.KindFeature, Name: f.Name})
	}
}

// secretChanged wakes the peers that read their credential from the Secret.
func (r *registry) secretChanged(_, o any) {
	secret, ok := o.(*corev1.Secret)
	if !ok {
		return
	}
	for _, item := range r.clusterIndex.List() {
		c, ok := item.(*v1alpha1.Cluster)
		if ok && c.Spec.AuthInfo.SecretRef.Name == secret.Name && c.Spec.AuthInfo.SecretRef.Namespace == secret.Namespace {
			if id := string(c.Spec.ClusterID); id == r.session.clusterID {
				r.session.chores.add(choreBootstrap)
			} else {
				r.session.peers.changed(id)
			}
		}
	}
}

// secretVersion is the version of a credential in the agent's namespace; "" when it is not there, or of
// another type.
func (r *registry) secretVersion(ref v1alpha1.NamespacedName) string {
	secret, err := r.secrets.Secrets(ref.Namespace).Get(ref.Name)
	if err != nil {
		return ""
	}
	return secret.ResourceVersion
}

// withoutManagedFields drops what nobody here reads.
func withoutManagedFields(o any) (any, error) {
	if object, err := meta.Accessor(o); err == nil {
		object.SetManagedFields(nil)
	}
	return o, nil
}

// withoutData keeps of a credential only that it is there and which version it has.
func withoutData(o any) any {
	secret, ok := o.(*corev1.Secret)
	if !ok {
		return o
	}
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Name: secret.Name, Namespace: secret.Namespace, UID: secret.UID, ResourceVersion: secret.ResourceVersion,
	}, Type: secret.Type}
}
