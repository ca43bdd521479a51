// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package directory

import (
	"errors"
	"log/slog"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roster-mesh/roster/agent/agenttest"
	"github.com/roster-mesh/roster/agent/informers"
	"github.com/roster-mesh/roster/agent/payload"
	"github.com/roster-mesh/roster/kube"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/mesh/trust"
	"github.com/roster-mesh/roster/replica"
)

// bed is the directory of cluster IDA, where IDB is a member.
type bed struct {
	*Directory
	gone, swapped map[string]bool
	pins          map[string]bool  // as Pinned says, whatever the replica's keyring has
	b             *replica.Replica // what IDB signs with
}

func newBed(t *testing.T) *bed {
	t.Helper()
	trust := trust.New(trust.Pin{ClusterID: agenttest.IDA, PublicKey: agenttest.PublicKey(agenttest.IDA)}, trust.Options{})
	if err := trust.Pin(agenttest.IDB, agenttest.PublicKey(agenttest.IDB)); err != nil {
		t.Fatal(err)
	}
	r, err := replica.New(replica.Options{Self: agenttest.IDA, PrivateKey: agenttest.Key(agenttest.IDA), Epoch: 1, Keyring: trust})
	if err != nil {
		t.Fatal(err)
	}
	gone, swapped, pins := map[string]bool{}, map[string]bool{}, map[string]bool{}
	return &bed{gone: gone, swapped: swapped, pins: pins, b: agenttest.Signer(t, agenttest.IDB, agenttest.Key(agenttest.IDB)), Directory: &Directory{
		Registry: informers.New(&kube.Client{}, "n", slog.New(slog.DiscardHandler)), Replica: r,
		Gone: func(id string) bool { return gone[id] }, Pinned: func(id string) bool { return pins[id] }, PrivateNamespace: "n-private",
		Swapped: func(id string) bool { return swapped[id] },
	}}
}

// publish has IDB say of itself what c says.
func (b *bed) publish(t *testing.T, c *v1alpha1.Cluster) {
	t.Helper()
	data, err := payload.EncodeCluster(c)
	if err != nil {
		t.Fatal(err)
	}
	messages, err := b.b.Publish(payload.ClusterKey(agenttest.IDB), replica.Live, data)
	if err != nil {
		t.Fatal(err)
	}
	for _, message := range messages {
		if _, _, err := b.Replica.Merge(message, agenttest.IDB); err != nil {
			t.Fatal(err)
		}
	}
}

// What a cluster itself has signed wins over the local object; the credential is a local matter.
func TestRoute(t *testing.T) {
	b := newBed(t)
	if _, err := b.Route(agenttest.IDB); !errors.Is(err, ErrGone) {
		t.Errorf("without a Cluster object: %v", err)
	}
	c := agenttest.Cluster("b", agenttest.IDB)
	c.Spec.KubernetesAPIEndpoints = []v1alpha1.KubernetesAPIEndpoint{{ServerAddress: "https://pasted"}}
	c.Spec.AuthInfo.SecretRef = v1alpha1.NamespacedName{Namespace: "n", Name: "b"}
	c.Spec.Mesh.Endpoints = []string{"pasted:1", "both:1"}
	secret := &kube.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "b", ResourceVersion: "7"}}
	if err := b.Registry.Put(c, secret); err != nil {
		t.Fatal(err)
	}
	want := Route{Endpoints: c.Spec.KubernetesAPIEndpoints, Secret: c.Spec.AuthInfo.SecretRef, Version: "7", Vouched: true}
	if got, err := b.Route(agenttest.IDB); err != nil || cmp.Diff(want, got) != "" {
		t.Errorf("pasted: %v\n%s", err, cmp.Diff(want, got))
	}
	signed := c.DeepCopy()
	signed.Spec.KubernetesAPIEndpoints = []v1alpha1.KubernetesAPIEndpoint{{ServerAddress: "https://signed"}}
	signed.Spec.Mesh.Endpoints = []string{"signed:1", "both:1"}
	signed.Annotations = map[string]string{v1alpha1.AnnotationConfirmRestore: "signed"}
	b.publish(t, signed)
	want.Endpoints, want.Signed, want.Vouched = signed.Spec.KubernetesAPIEndpoints, true, false // no person has pinned its key
	if got, err := b.Route(agenttest.IDB); err != nil || cmp.Diff(want, got) != "" {
		t.Errorf("signed: %v\n%s", err, cmp.Diff(want, got))
	}
	if got := b.MeshEndpoints(agenttest.IDB); !slices.Equal(got, []string{"signed:1", "both:1", "pasted:1"}) {
		t.Errorf("its mesh is at %v", got)
	}
	if got := b.Confirmation(agenttest.IDB); got != "signed" {
		t.Errorf("it has confirmed %q", got)
	}
	own := c.DeepCopy()
	own.Spec.AuthInfo.SecretRef.Namespace, own.Annotations = "n-private", map[string]string{v1alpha1.AnnotationClusterDisabled: ""}
	if err := b.Registry.Put(own); err != nil {
		t.Fatal(err)
	}
	if got, err := b.Route(agenttest.IDB); err != nil || got.Secret.Name != "" || !got.Disabled {
		t.Errorf("with a credential of our own, disabled: %+v, %v", got, err)
	}
}

// A cluster that is in the group, or of which anything is known, is not forgotten; to be read from it needs an object.
func TestListedAndForgotten(t *testing.T) {
	b := newBed(t)
	is := func(what string, listed, forgotten bool) {
		t.Helper()
		if b.Listed(agenttest.IDB) != listed || b.Forgotten(agenttest.IDB) != forgotten {
			t.Errorf("%s: listed %t, forgotten %t", what, b.Listed(agenttest.IDB), b.Forgotten(agenttest.IDB))
		}
	}
	is("unknown", false, true)
	b.pins[agenttest.IDB] = true
	is("a member, after a restart that found an empty disk", false, false)
	delete(b.pins, agenttest.IDB)
	c := agenttest.Cluster("b", agenttest.IDB)
	if err := b.Registry.Put(c); err != nil {
		t.Fatal(err)
	}
	is("pasted", true, false)
	if err := b.Registry.Drop(c); err != nil {
		t.Fatal(err)
	}
	b.publish(t, c)
	is("heard of, its object is deleted", false, false)
	if err := b.Registry.Put(c); err != nil {
		t.Fatal(err)
	}
	b.gone[agenttest.IDB] = true
	is("gone from the group", false, true)
}

// A person vouches for a CA by writing it here, or by pinning the key of who signed it; a member that introduces a cluster
// does not.
func TestVouched(t *testing.T) {
	b := newBed(t)
	is := func(what string, want bool) {
		t.Helper()
		if got, _ := b.Route(agenttest.IDB); got.Vouched != want {
			t.Errorf("%s: %t", what, !want)
		}
	}
	is("unknown", false)
	c := agenttest.Cluster("b", agenttest.IDB)
	if err := b.Registry.Put(c); err != nil {
		t.Fatal(err)
	}
	is("written by a person", true)
	b.publish(t, c)
	is("introduced, and published", false)
	b.swapped[agenttest.IDB] = true
	is("swapped, and published", true)
	b = newBed(t)
	copied := c.DeepCopy()
	payload.MarkCopy(copied, payload.Meta{}, agenttest.IDB)
	if err := b.Registry.Put(copied); err != nil {
		t.Fatal(err)
	}
	is("a copy of who was introduced", false)
	b.swapped[agenttest.IDB] = true
	is("a copy after a swap", true)
}
