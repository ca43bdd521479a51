// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// A CA that a member published proves no server to which a pasted credential may go; one that a person wrote does, and any
// does for what the member's own agent issued.
func TestEndpointsForACredential(t *testing.T) {
	for name, c := range map[string]struct {
		namespace, owner string
		keepsCA          bool
	}{
		"pasted, of a copy":             {"n", "id-b", false},
		"pasted, written by a person":   {"n", "", true},
		"issued, of a copy":             {"n-private", "id-b", true},
		"no credential, made by a tool": {"", "", true},
	} {
		cluster := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{}}}
		if c.owner != "" {
			cluster.Annotations[v1alpha1.AnnotationOwnerClusterID] = c.owner
		}
		cluster.Spec.AuthInfo.SecretRef = v1alpha1.NamespacedName{Namespace: c.namespace, Name: "b"}
		cluster.Spec.KubernetesAPIEndpoints = []v1alpha1.KubernetesAPIEndpoint{{ServerAddress: "b:6443", CABundle: []byte("ca")}}
		got := Endpoints(cluster)
		if len(got) != 1 || got[0].ServerAddress != "b:6443" || (len(got[0].CABundle) > 0) != c.keepsCA || len(cluster.Spec.KubernetesAPIEndpoints[0].CABundle) == 0 {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
