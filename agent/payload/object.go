// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package payload

import (
	"crypto/ed25519"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/replica"
)

// AsKey is the bytes of a Cluster object as a public key; bytes of another length equal no key.
func AsKey(b []byte) ed25519.PublicKey { return ed25519.PublicKey(b) }

// RecordedKey is the public key in a Cluster object; nil when there is none.
func RecordedKey(c *v1alpha1.Cluster) []byte {
	if c == nil || c.Spec.Mesh == nil {
		return nil
	}
	return c.Spec.Mesh.PublicKey
}

// ClusterKey is under which key the replica has a cluster.
func ClusterKey(id string) replica.Key { return replica.Key{Kind: replica.KindCluster, Name: id} }

// RuleKey is under which key the replica has a rule.
func RuleKey(name string) replica.Key { return replica.Key{Kind: replica.KindRule, Name: name} }

// FeatureKey is under which key the replica has a feature.
func FeatureKey(name string) replica.Key { return replica.Key{Kind: replica.KindFeature, Name: name} }

// KindName is what Kubernetes calls a kind of the replica.
func KindName(k replica.Kind) string {
	switch k {
	case replica.KindCluster:
		return "Cluster"
	case replica.KindRule:
		return "ResourceSyncRule"
	case replica.KindFeature:
		return "ClusterFeature"
	}
	return fmt.Sprintf("kind %d", k)
}

// Exactly makes a delete hit the object that was looked at and no successor of it.
func Exactly(o metav1.Object) *metav1.Preconditions {
	uid, version := o.GetUID(), o.GetResourceVersion()
	return &metav1.Preconditions{UID: &uid, ResourceVersion: &version}
}

// SameMeta compares what a copy's metadata carries over.
func SameMeta(a, b metav1.Object) bool {
	return equality.Semantic.DeepEqual(a.GetLabels(), b.GetLabels()) && equality.Semantic.DeepEqual(a.GetAnnotations(), b.GetAnnotations())
}
