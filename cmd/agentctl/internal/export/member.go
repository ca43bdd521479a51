// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package export

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/clusters"
	"github.com/roster-mesh/roster/kube"
)

// secretRequests is how many Secrets are read at a time.
const secretRequests = 16

// member is a cluster that is exported.
type member struct {
	name   string
	object *unstructured.Unstructured // as read
	// credential is its kubeconfig; nil where none is asked for, or why says why there is none.
	credential []byte
	why        string
}

// readCredentials reads the Secret of each member by its name. One that is not there, may not be read or is of no use is
// said of the member; an error is about the API server.
func readCredentials(ctx context.Context, c *clusters.Client, members []*member, namespace string) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(secretRequests)
	for _, m := range members {
		group.Go(func() error { return m.readCredential(ctx, c, namespace) })
	}
	return group.Wait()
}

func (m *member) readCredential(ctx context.Context, c *clusters.Client, namespace string) error {
	ref := clusters.SecretRef(m.object)
	if ref.Namespace == "" {
		ref.Namespace = namespace
	}
	if ref.Name == "" {
		m.why = "its Cluster object names none in spec.authInfo.secretRef"
		return nil
	}
	if err := clusters.CheckRef(ref, clusters.IDOf(m.object)); err != nil {
		m.why = clusters.Reason(err)
		return nil
	}
	secret, err := c.Secrets(ref.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err), apierrors.IsForbidden(err):
		m.why = fmt.Sprintf("Secret %s/%s cannot be read: %s", ref.Namespace, ref.Name, clusters.Reason(err))
		return nil
	case err != nil:
		return c.Errorf("read Secret %s/%s: %w", ref.Namespace, ref.Name, err)
	}
	kubeconfig, err := clusters.KubeconfigOf(secret)
	if err == nil {
		_, err = kube.ParseKubeconfig(kubeconfig)
	}
	if err != nil {
		m.why = fmt.Sprintf("Secret %s/%s: %s", ref.Namespace, ref.Name, clusters.Reason(err))
		return nil
	}
	m.credential = kubeconfig
	return nil
}

// access is how the cluster is reached from a network: address, CA and, where it was read, the credential.
func (m *member) access(network string) (*rest.Config, error) {
	if m.why != "" {
		return nil, errors.New(m.why)
	}
	cluster, err := clusters.DecodeCluster(m.object)
	if err != nil {
		return nil, err
	}
	if m.credential != nil {
		return clusters.PeerConfig(m.credential, cluster, network)
	}
	config, err := kube.EndpointConfig(cluster.Spec.KubernetesAPIEndpoints, network)
	switch {
	case err != nil:
		return nil, err
	case config.Host == "":
		return nil, fmt.Errorf("spec.kubernetesApiEndpoints has no address for network %s; --with-credentials takes that of its credential", network)
	case len(config.CAData) == 0:
		return nil, fmt.Errorf("spec.kubernetesApiEndpoints has no caBundle for network %s; --with-credentials takes that of its credential", network)
	}
	return config, nil
}
