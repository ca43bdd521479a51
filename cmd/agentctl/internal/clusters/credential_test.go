// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"bytes"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"net/http/httptest"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// A CA that a member published proves no server to which a pasted credential may go, nor does the name in its address: the
// CA in the kubeconfig may sign that, too. What a person wrote proves it, and any does for what the member's own agent issued.
func TestPeerConfig(t *testing.T) {
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	kubeconfig := fmt.Appendf(nil, `{apiVersion: v1, kind: Config, current-context: x, contexts: [{name: x, context: {cluster: c, user: u}}],
users: [{name: u, user: {token: t}}], clusters: [{name: c, cluster: {server: "https://pasted.example:6443", certificate-authority-data: %s}}]}`, base64.StdEncoding.EncodeToString(ca))
	published := append([]byte("\n"), ca...) // which differs from the one in the kubeconfig
	for name, c := range map[string]struct {
		namespace, owner string
		proves           bool
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
		cluster.Spec.KubernetesAPIEndpoints = []v1alpha1.KubernetesAPIEndpoint{{ServerAddress: "b:6443", CABundle: published}}
		wantCA, wantName := ca, "pasted.example"
		if c.proves {
			wantCA, wantName = published, ""
		}
		got, err := PeerConfig(kubeconfig, cluster, "")
		if err != nil || got.Host != "https://b:6443" || got.ServerName != wantName || !bytes.Equal(got.CAData, wantCA) {
			t.Errorf("%s: %v, %+v", name, err, got)
		}
	}
}
