// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"context"
	"fmt"
	"reflect"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"github.com/roster-mesh/roster/agent/apiconn"
	"github.com/roster-mesh/roster/agent/store"
	"github.com/roster-mesh/roster/kube"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// CredentialRef is the Secret with the issued credential for a cluster; false if another credential is in use.
func (p *Peers) CredentialRef(id string) (v1alpha1.NamespacedName, bool) {
	if !p.Peer(id).Issued {
		return v1alpha1.NamespacedName{}, false
	}
	return v1alpha1.NamespacedName{Name: v1alpha1.IssuedSecret(id), Namespace: p.options.Store.Namespace()}, true
}

// Proven is how a cluster is reached with the credential that its agent issued: at the address, and with the CA, that the
// cluster has signed, and with which this agent has seen that the cluster answers. It is nil while there is none.
func (p *Peers) Proven(id string) *rest.Config {
	route, err := p.options.Directory.Route(id)
	if err != nil || !route.Signed || route.Disabled {
		return nil
	}
	p.mu.Lock()
	t := p.trackedLocked(id)
	issued, kubeconfig, connection := t.issued, t.kubeconfig, t.connection
	p.mu.Unlock()
	if !issued || kubeconfig == "" || connection == nil {
		return nil
	}
	config, err := kube.PeerConfig([]byte(kubeconfig), route.Endpoints, true, p.options.NetworkName)
	if err != nil || !reflect.DeepEqual(apiconn.TargetOf(config), connection.target) {
		return nil // it is connected anew
	}
	return config
}

// ForgetCredential deletes the issued credential for a cluster, if there is one.
func (p *Peers) ForgetCredential(ctx context.Context, id string) error {
	_, err := p.options.Store.Delete(ctx, v1alpha1.IssuedSecret(id))
	return err
}

// readKept reads the Secret with the issued credential of a peer. If there is none, it returns a Secret without a
// resourceVersion.
func readKept(ctx context.Context, s *store.Store, clusterID string) (*kube.Secret, error) {
	secret, err := s.Read(ctx, v1alpha1.IssuedSecret(clusterID))
	if apierrors.IsNotFound(err) {
		fresh := s.NewSecret(v1alpha1.IssuedSecret(clusterID), nil)
		fresh.Type = v1alpha1.SecretType
		return fresh, nil
	}
	if err != nil {
		return nil, err
	}
	secret.ManagedFields = nil
	return secret, nil
}

// keep writes an issued kubeconfig to kept, which readKept has returned. That is a single request unless the Secret was
// changed or deleted meanwhile. After an error, read the Secret again.
func keep(ctx context.Context, s *store.Store, clusterID string, kept *kube.Secret, kubeconfig []byte) error {
	err := writeKept(ctx, s, kept, kubeconfig)
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) || apierrors.IsAlreadyExists(err) {
		var now *kube.Secret
		if now, err = readKept(ctx, s, clusterID); err == nil {
			*kept = *now
			err = writeKept(ctx, s, kept, kubeconfig)
		}
	}
	if err != nil {
		return fmt.Errorf("record Secret %s/%s: %w", kept.Namespace, kept.Name, err)
	}
	return nil
}

func writeKept(ctx context.Context, s *store.Store, kept *kube.Secret, kubeconfig []byte) error {
	write := kube.Objects[kube.Secret].Update
	if kept.ResourceVersion == "" {
		write = kube.Objects[kube.Secret].Create
	}
	kept.Data = map[string][]byte{v1alpha1.SecretKubeconfigKey: kubeconfig}
	stored, err := write(s.Secrets(), ctx, kept)
	if err == nil {
		kept.ObjectMeta = stored.ObjectMeta
		kept.ManagedFields = nil
	}
	return err
}
