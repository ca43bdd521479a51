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

// AsKey converts bytes of a Cluster object to a public key. Bytes of a wrong length equal no key.
func AsKey(b []byte) ed25519.PublicKey { return ed25519.PublicKey(b) }

// RecordedKey is the public key in a Cluster object; nil if there is none.
func RecordedKey(c *v1alpha1.Cluster) []byte {
	if c == nil || c.Spec.Mesh == nil {
		return nil
	}
	return c.Spec.Mesh.PublicKey
}

// ClusterKey is the key of a cluster in the replica.
func ClusterKey(id string) replica.Key { return replica.Key{Kind: replica.KindCluster, Name: id} }

// RuleKey is the key of a rule in the replica.
func RuleKey(name string) replica.Key { return replica.Key{Kind: replica.KindRule, Name: name} }

// FeatureKey is the key of a feature in the replica.
func FeatureKey(name string) replica.Key { return replica.Key{Kind: replica.KindFeature, Name: name} }

// KindName is the Kubernetes name of a kind in the replica.
func KindName(k replica.Kind) string {
	switch k {
	case replica.KindCluster:
		return "Cluster"
	case replica.KindRule:
		return "ResourceSyncRule"
	case replica.KindFeature:
		return "ClusterFeature"
	case replica.KindAdmission:
		return "admission"
	}
	return fmt.Sprintf("kind %d", k)
}

// PreconditionsOf makes a delete apply to exactly this object in exactly this version.
func PreconditionsOf(o metav1.Object) *metav1.Preconditions {
	uid, version := o.GetUID(), o.GetResourceVersion()
	return &metav1.Preconditions{UID: &uid, ResourceVersion: &version}
}

// SameMeta reports whether labels and annotations are the same.
func SameMeta(a, b metav1.Object) bool {
	return equality.Semantic.DeepEqual(a.GetLabels(), b.GetLabels()) && equality.Semantic.DeepEqual(a.GetAnnotations(), b.GetAnnotations())
}
