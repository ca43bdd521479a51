// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"cmp"
	"context"
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
	"github.com/roster-mesh/roster/replica"
	"github.com/roster-mesh/roster/syncrules"
)

const clusterIDIndex = "clusterID"

// registry is the local API server's Clusters, rules and features, watched, with the Secrets that a swap
// may have put into the agent's namespace. Objects in its listers are shared: never change one.
type registry struct {
	session      *session
	mirrors      []*mirror
	clusterIndex cache.Indexer
	clusters     listers.ClusterLister
	rules        listers.ResourceSyncRuleLister
	features     listers.ClusterFeatureLister
	secrets      cache.Indexer
}

func newRegistry(s *session) *registry {
	r := &registry{session: s}
	byClusterID := cache.Indexers{clusterIDIndex: func(o any) ([]string, error) {
		if c, ok := o.(*v1alpha1.Cluster); ok {
			return []string{string(c.Spec.ClusterID)}, nil
		}
		return nil, nil
	}}
	watched := func(kind schema.GroupVersionKind) kube.WatchOptions { return kube.WatchOptions{GVK: kind} }
	clusters := newMirror(watched(s.client.Clusters().Kind()), whole[v1alpha1.Cluster], byClusterID, r.clusterChanged, s.log)
	rules := newMirror(watched(s.client.Rules().Kind()), whole[v1alpha1.ResourceSyncRule], nil, r.ruleChanged, s.log)
	features := newMirror(watched(s.client.Features().Kind()), whole[v1alpha1.ClusterFeature], nil, r.featureChanged, s.log)
	credentials := s.client.Secrets(s.options.Namespace)
	secrets := newMirror(kube.WatchOptions{
		GVK: credentials.Kind(), Namespace: s.options.Namespace,
		FieldSelector: fields.OneTermEqualSelector("type", v1alpha1.SecretType).String(),
	}, withoutData, nil, r.secretChanged, s.log)

	r.mirrors = []*mirror{clusters, rules, features, secrets}
	r.clusterIndex, r.secrets = clusters.index, secrets.index
	r.clusters = listers.NewClusterLister(clusters.index)
	r.rules = listers.NewResourceSyncRuleLister(rules.index)
	r.features = listers.NewClusterFeatureLister(features.index)
	return r
}

// start keeps the registry until ctx ends, in group, and returns when every handler has seen the first complete
// list.
func (r *registry) start(ctx context.Context, group *errgroup.Group) error {
	for _, m := range r.mirrors {
		group.Go(func() error { return m.run(ctx, r.session.client) })
	}
	for _, m := range r.mirrors {
		select {
		case <-m.synced:
		case <-ctx.Done():
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
			s.engine.ClusterChanged()     // and rules' templates may read it
		} else {
			s.offers.add(id)
		}
		return // its status alone: nothing else depends on that
	}
	if id == s.clusterID {
		s.publish.add(clusterKey(id))
		s.engine.ClusterChanged()
		if has(c, v1alpha1.AnnotationRemove) {
			s.orderings.add(c.Name)
		}
		return
	}
	s.swapped(c)
	if has(c, v1alpha1.AnnotationRemove) {
		s.orderings.add(c.Name)
	}
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
	r.tellRule(rule, was)
	r.session.publish.add(key)
	r.session.incoming.add(key)
}

// tellRule tells the engine of a rule that changed.
func (r *registry) tellRule(rule, was *v1alpha1.ResourceSyncRule) {
	r.session.restore.telling.Lock()
	defer r.session.restore.telling.Unlock()
	current, err := r.rules.Get(rule.Name)
	own := syncrules.Owner(rule) == ""
	if err != nil || was != nil && older(rule, was) || own && r.session.restore.isFrozen() {
		r.session.unsettle(rule) // the engine is told when it is certain: settleRule
		return
	}
	r.session.settled(rule.Name)
	r.session.engine.SetRule(inForce(current))
}

func (r *registry) featureChanged(_, o any) {
	if f, ok := o.(*v1alpha1.ClusterFeature); ok {
		r.session.publish.add(replica.Key{Kind: replica.KindFeature, Name: f.Name})
	}
}

// secretChanged wakes the peers that read their credential from the Secret.
func (r *registry) secretChanged(_, o any) {
	secret, ok := o.(*kube.Secret)
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
	found, _, _ := r.secrets.GetByKey(ref.Namespace + "/" + ref.Name) // this index returns no error
	if secret, ok := found.(*kube.Secret); ok {
		return secret.ResourceVersion
	}
	return ""
}

// whole keeps all of an object.
func whole[T any](o *T) *T { return o }

// withoutData keeps of a credential only that it is there and which version it has.
func withoutData(secret *kube.Secret) *kube.Secret {
	return &kube.Secret{ObjectMeta: metav1.ObjectMeta{
		Name: secret.Name, Namespace: secret.Namespace, UID: secret.UID, ResourceVersion: secret.ResourceVersion,
	}, Type: secret.Type}
}
