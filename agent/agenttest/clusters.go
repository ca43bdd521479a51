// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package agenttest

import (
	"crypto/ed25519"
	"crypto/sha256"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/mesh/trust"
	"github.com/roster-mesh/roster/replica"
)

// Some clusterIDs.
const (
	IDA = "0a000000-0000-4000-8000-000000000001"
	IDB = "0b000000-0000-4000-8000-000000000002"
	IDC = "0c000000-0000-4000-8000-000000000003"
)

// Key is a private key for a cluster, the same one each time.
func Key(id string) ed25519.PrivateKey {
	seed := sha256.Sum256([]byte(id))
	return ed25519.NewKeyFromSeed(seed[:])
}

// PublicKey is the public part of Key.
func PublicKey(id string) ed25519.PublicKey { return public(Key(id)) }

func public(key ed25519.PrivateKey) ed25519.PublicKey {
	return ed25519.PublicKey(key[ed25519.PrivateKeySize-ed25519.PublicKeySize:])
}

// Cluster is a Cluster object with the public key of that cluster.
func Cluster(name, id string) *v1alpha1.Cluster {
	return &v1alpha1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid of " + name)},
		Spec:       v1alpha1.ClusterSpec{ClusterID: types.UID(id), Mesh: &v1alpha1.ClusterMesh{PublicKey: PublicKey(id)}},
	}
}

// Signer is a replica that signs as a cluster, with any key.
func Signer(t *testing.T, id string, key ed25519.PrivateKey) *replica.Replica {
	t.Helper()
	trust := trust.New(trust.Pin{ClusterID: id, PublicKey: public(key)}, trust.Options{})
	r, err := replica.New(replica.Options{Self: id, PrivateKey: key, Epoch: 1, Keyring: trust})
	if err != nil {
		t.Fatal(err)
	}
	return r
}
