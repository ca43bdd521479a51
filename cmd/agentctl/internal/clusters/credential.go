// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"context"
	"encoding/base64"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"github.com/roster-mesh/roster/kube"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/syncrules"
)

// CheckCredential tells whether a Secret is the credential of a cluster. The error never quotes the content.
func CheckCredential(secret *unstructured.Unstructured) error {
	kind, _, _ := unstructured.NestedString(secret.Object, "type")
	if kind != v1alpha1.SecretType {
		return fmt.Errorf("has type %q, a cluster's credential has type %q", kind, v1alpha1.SecretType)
	}
	if data, _, _ := unstructured.NestedString(secret.Object, "data", v1alpha1.SecretKubeconfigKey); data == "" {
		return fmt.Errorf("has no key %q", v1alpha1.SecretKubeconfigKey)
	}
	return nil
}

// KubeconfigOf is the kubeconfig that a credential holds.
func KubeconfigOf(secret *unstructured.Unstructured) ([]byte, error) {
	if err := CheckCredential(secret); err != nil {
		return nil, err
	}
	encoded, _, _ := unstructured.NestedString(secret.Object, "data", v1alpha1.SecretKubeconfigKey)
	return base64.StdEncoding.DecodeString(encoded)
}

// CheckRef refuses a Secret that the Cluster object of a cluster must not name: the credential that an agent issued for
// another one. Who edits the object may not read it, and it would be sent to the address that is in the object.
func CheckRef(ref v1alpha1.NamespacedName, id string) error {
	if isPrivate(ref) && ref.Name != v1alpha1.IssuedSecret(id) {
		return fmt.Errorf("its Cluster object names Secret %s/%s, which is not the one that its agent issued", ref.Namespace, ref.Name)
	}
	return nil
}

func isPrivate(ref v1alpha1.NamespacedName) bool {
	return strings.HasSuffix(ref.Namespace, v1alpha1.PrivateNamespace(""))
}

// PeerConfig leads to a cluster with the credential that its Cluster object names. A pasted credential goes only where its
// kubeconfig proves the server, unless a person here wrote the Cluster object: a member could have it sent to a server of its
// own.
func PeerConfig(kubeconfig []byte, cluster *v1alpha1.Cluster, network string) (*rest.Config, error) {
	vouched := isPrivate(cluster.Spec.AuthInfo.SecretRef) || syncrules.Owner(cluster) == ""
	return kube.PeerConfig(kubeconfig, cluster.Spec.KubernetesAPIEndpoints, vouched, network)
}

// Verify refuses to ask another cluster than the one meant.
func (c *Client) Verify(ctx context.Context, id string) error {
	have, err := c.ClusterID(ctx)
	if err != nil {
		return err
	}
	if have != id {
		return fmt.Errorf("%w: its clusterID is %q, expected %q", kube.ErrWrongCluster, have, id)
	}
	return nil
}
