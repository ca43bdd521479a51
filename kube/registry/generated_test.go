// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"slices"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	view "github.com/roster-mesh/roster/kube/api/registry/v1alpha1"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// edited is a view of have after somebody has worked on it.
func edited(t *rapid.T, have *v1alpha1.Cluster) *view.Cluster {
	v, other := FromCluster(have).DeepCopy(), FromCluster(stored().Draw(t, "edit")).DeepCopy()
	change := func(what string) bool { return rapid.Bool().Draw(t, "change "+what) }
	if change("labels") {
		v.Labels, v.Annotations, v.Finalizers, v.ManagedFields = other.Labels, other.Annotations, other.Finalizers, other.ManagedFields
	}
	at, from := &v.Spec.KubernetesAPIEndpoints, other.Spec.KubernetesAPIEndpoints
	if change("endpoints") {
		at.ServerEndpoints = rapid.Permutation(append(slices.Clone(at.ServerEndpoints), from.ServerEndpoints...)).Draw(t, "endpoints")
		at.ServerEndpoints = at.ServerEndpoints[:rapid.IntRange(0, len(at.ServerEndpoints)).Draw(t, "number of endpoints")]
		at.ServerEndpoints = slices.DeleteFunc(at.ServerEndpoints, func(e view.ServerAddressByClientCIDR) bool { return e.ServerAddress == "" }) // Validate takes none
	}
	if change("caBundle") {
		at.CABundle = from.CABundle
	}
	if change("user") {
		v.Spec.AuthInfo.User = other.Spec.AuthInfo.User
	}
	if change("controller") {
		v.Spec.AuthInfo.Controller = other.Spec.AuthInfo.Controller
	}
	if change("conditions") {
		v.Status.Conditions = other.Status.Conditions
		for i := range v.Status.Conditions {
			c := &v.Status.Conditions[i]
			c.Reason = rapid.SampledFrom([]string{"", "R"}).Draw(t, "reason")
			c.LastHeartbeatTime = moment().Draw(t, "heartbeat")
			c.LastTransitionTime = moment().Draw(t, "transition")
		}
	}
	return v
}

// stored are Clusters as people, agents and views have written them. Few values make what differs meet what is equal.
func stored() *rapid.Generator[*v1alpha1.Cluster] {
	return rapid.Custom(func(t *rapid.T) *v1alpha1.Cluster {
		one := func(what string, from ...string) string { return rapid.SampledFrom(from).Draw(t, what) }
		some := func(what string) bool { return rapid.Bool().Draw(t, what) }
		c := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "u", ResourceVersion: "7", Generation: 2}}
		c.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "agent", APIVersion: "clusterregistry.k8s.cisco.com/v1alpha1"}}
		c.Annotations = map[string]string{}
		if some("labels") {
			c.Labels, c.Finalizers = map[string]string{"env": one("env", "x", "y")}, []string{one("finalizer", "a/b", "a/c")}
			c.Annotations["note"] = one("note", "x", "y")
		}
		if some("managedFields") {
			c.Annotations[v1alpha1.AnnotationRegistryManagedFields] = `[{"manager":"` + one("manager", "p", "q") + `","operation":"Apply","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{"f:spec":{}}}]`
		}
		c.Spec.ClusterID = types.UID(one("clusterID", "", "id"))
		if some("mesh") {
			c.Spec.Mesh = &v1alpha1.ClusterMesh{Endpoints: []string{one("mesh endpoint", "a:1", "b:1")}}
		}
		for range rapid.IntRange(0, 3).Draw(t, "number of endpoints") {
			c.Spec.KubernetesAPIEndpoints = append(c.Spec.KubernetesAPIEndpoints, v1alpha1.KubernetesAPIEndpoint{
				ClientNetwork: one("network", "", "m", "n"), ClientCIDR: one("CIDR", "", "10.0.0.0/8"), ServerAddress: one("address", "", "a:1", "b:1"),
				CABundle: rapid.SampledFrom([][]byte{nil, []byte("x"), []byte("y")}).Draw(t, "CA"),
			})
		}
		if some("secretRef") {
			c.Spec.AuthInfo.SecretRef = v1alpha1.NamespacedName{Name: one("secret", "", "s", "u"), Namespace: "n"}
		}
		if some("controller") {
			c.Spec.AuthInfo.Controller = &v1alpha1.ObjectReference{Kind: "Vault", Name: one("controller", "v", "w")}
		}
		if some("user") {
			c.Spec.AuthInfo.User = &v1alpha1.ObjectReference{Kind: one("user kind", "Secret", "Person"), Name: "p"}
		}
		c.Status.Version, c.Status.State = "v1", v1alpha1.ClusterStateReady
		for _, kind := range []string{"Ready", "OK", "Member", "example.com/Mine"} {
			if some("condition " + kind) {
				c.Status.Conditions = append(c.Status.Conditions, metav1.Condition{
					Type: kind, Status: metav1.ConditionStatus(one("status", "True", "False")), Reason: one("reason", "R", "S"), Message: one("message", "", "m"),
					LastTransitionTime: at(int64(rapid.IntRange(1, 3).Draw(t, "since"))), ObservedGeneration: int64(rapid.IntRange(0, 2).Draw(t, "generation")),
				})
			}
		}
		return c
	})
}

func moment() *rapid.Generator[metav1.Time] {
	return rapid.SampledFrom([]metav1.Time{{}, at(2), at(4)})
}

func at(second int64) metav1.Time { return metav1.NewTime(time.Unix(second, 0).UTC()) }

func toCluster(t rapid.TB, have *v1alpha1.Cluster, v *view.Cluster) *v1alpha1.Cluster {
	t.Helper()
	out, err := ToCluster(have, v)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func same(t rapid.TB, what string, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}
