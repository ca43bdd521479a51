// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/binary"
	"encoding/pem"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roster-mesh/roster/agent/payload"
	"github.com/roster-mesh/roster/e2e/harness"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/mesh/trust"
	"github.com/roster-mesh/roster/replica"
)

// tryToSay says what say does, as somebody who may be refused.
func tryToSay(t *testing.T, c *harness.Cluster, key ed25519.PrivateKey, messages ...[]byte) {
	t.Helper()
	conn := shake(t, c, key, "roster-packet/1")
	if conn == nil {
		return
	}
	defer conn.Close()
	for _, message := range messages {
		_, _ = conn.Write(frame(message))
	}
}

// invent makes up a cluster: its key, and what it publishes.
func invent(t *testing.T, name string) (key ed25519.PrivateKey, says [][]byte) {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key, publishes(t, signer(t, name, key), payload.ClusterKey(name), invented(t, name, key))
}

// invented is the Cluster object of a cluster that there is not.
func invented(t *testing.T, name string, key ed25519.PrivateKey) []byte {
	t.Helper()
	cluster, err := payload.EncodeCluster(&v1alpha1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       v1alpha1.ClusterSpec{ClusterID: types.UID(name), Mesh: &v1alpha1.ClusterMesh{PublicKey: key.Public().(ed25519.PublicKey), Endpoints: []string{"127.0.0.1:1"}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return cluster
}

// admits is the statement of a cluster that it admits another one.
func admits(t *testing.T, author string, key ed25519.PrivateKey, id string, of ed25519.PrivateKey) []byte {
	t.Helper()
	data, err := payload.EncodeAdmission(trust.Admission{PublicKey: of.Public().(ed25519.PublicKey)})
	if err != nil {
		t.Fatal(err)
	}
	return publishes(t, signer(t, author, key), payload.AdmissionKey(id), data)[0]
}

func publishes(t *testing.T, r *replica.Replica, key replica.Key, data []byte) [][]byte {
	t.Helper()
	messages, err := r.Publish(key, replica.Live, data)
	if err != nil {
		t.Fatal(err)
	}
	return messages
}

// posing is what a cluster publishes under a key: its Cluster object, and a rule.
func posing(t *testing.T, id string, key ed25519.PrivateKey) (messages [][]byte) {
	t.Helper()
	r := signer(t, id, key)
	cluster, err := payload.EncodeCluster(&v1alpha1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Name: "beta"},
		Spec:       v1alpha1.ClusterSpec{ClusterID: types.UID(id), Mesh: &v1alpha1.ClusterMesh{PublicKey: key.Public().(ed25519.PublicKey), Endpoints: []string{"127.0.0.1:1"}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	rule, err := payload.EncodeRule(&v1alpha1.ResourceSyncRule{
		ObjectMeta: metav1.ObjectMeta{Name: "posing"},
		Spec:       v1alpha1.ResourceSyncRuleSpec{GVK: v1alpha1.GroupVersionKind{Version: "v1", Kind: "Secret"}, Rules: []v1alpha1.SyncRule{{}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, said := range []struct {
		key  replica.Key
		data []byte
	}{{payload.ClusterKey(id), cluster}, {payload.RuleKey("posing"), rule}} {
		msgs, err := r.Publish(said.key, replica.Live, said.data)
		if err != nil {
			t.Fatal(err)
		}
		messages = append(messages, msgs...)
	}
	return messages
}

// signer signs as a cluster, with any key, and as much as it is told to.
func signer(t *testing.T, id string, key ed25519.PrivateKey) *replica.Replica {
	t.Helper()
	table := trust.New(trust.Pin{ClusterID: id, PublicKey: key.Public().(ed25519.PublicKey)}, trust.Options{})
	r, err := replica.New(replica.Options{Self: id, PrivateKey: key, Epoch: 1 << 20, Keyring: table, Limits: replica.Limits{Bytes: 1 << 30}})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// say sends messages to the agent of a cluster as the member with that key does.
func say(t *testing.T, c *harness.Cluster, key ed25519.PrivateKey, messages ...[]byte) {
	t.Helper()
	conn := shake(t, c, key, "roster-packet/1")
	if conn == nil {
		t.Fatal("the member is refused")
	}
	defer conn.Close()
	for _, message := range messages {
		if _, err := conn.Write(frame(message)); err != nil {
			t.Fatal(err)
		}
	}
	if err := conn.CloseWrite(); err != nil {
		t.Error(err)
	}
	for err := error(nil); err == nil; { // what it answers, until it has read all
		_, err = conn.Read(make([]byte, 4<<10))
	}
}

// frame has a message in it.
func frame(message []byte) []byte {
	const replicated = 2 << 24 // the kind of the frame, above its length
	return append(binary.BigEndian.AppendUint32(nil, uint32(replicated|len(message))), message...)
}

// privateKey is the key of a cluster, as whoever reads its private namespace has it.
func privateKey(t *testing.T, c *harness.Cluster) ed25519.PrivateKey {
	t.Helper()
	secret, err := c.Kube.CoreV1().Secrets(v1alpha1.PrivateNamespace(harness.Namespace)).Get(t.Context(), "roster-identity", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(secret.Data["ed25519.key"])
	if block == nil {
		t.Fatal("the identity is not PEM")
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	key, ok := parsed.(ed25519.PrivateKey)
	if !ok {
		t.Fatal("the identity is not an Ed25519 key")
	}
	return key
}

// publicKey is the key that a cluster has pinned for another one.
func publicKey(t *testing.T, at *harness.Cluster, name string) ed25519.PublicKey {
	t.Helper()
	u, err := get(t.Context(), at, harness.Clusters(), "", name)
	if err != nil {
		t.Fatal(err)
	}
	text, _, err := unstructured.NestedString(u.Object, "spec", "mesh", "publicKey")
	if err != nil {
		t.Fatal(err)
	}
	key, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return key
}
