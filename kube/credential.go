// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"errors"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api/v1"
	"sigs.k8s.io/yaml"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// minTokenLife is the shortest life that an API server grants a token.
const minTokenLife = 10 * time.Minute

// Credential is a kubeconfig that reads the local cluster, and when its token ends.
type Credential struct {
	Kubeconfig []byte
	Expires    time.Time
}

// Issuer issues credentials of the local cluster to its peers. What they may read is what the
// chart bound to the group of all accounts of the readers' namespace; the Issuer needs no right to
// write RBAC. It is safe for concurrent use.
type Issuer struct {
	client      *Client
	readers     string
	server      Server
	clusterName string
}

// NewIssuer makes an issuer. namespace is the agent's own; accounts live in its -readers namespace.
// server is where peers reach the local API server, and clusterName names the cluster, the user and
// the context of the kubeconfigs.
func NewIssuer(c *Client, namespace string, server Server, clusterName string) *Issuer {
	return &Issuer{client: c, readers: v1alpha1.ReadersNamespace(namespace), server: server, clusterName: clusterName}
}

// Issue makes a token of ServiceAccount account, which it creates where it is missing, and wraps it
// into a kubeconfig. The API server may grant another life than ttl; Expires is what it granted.
func (i *Issuer) Issue(ctx context.Context, account string, ttl time.Duration) (Credential, error) {
	if len(i.server.CABundle) == 0 {
		return Credential{}, errors.New("issue credential: no CA of the API server is known: use a kubeconfig that holds certificate-authority-data")
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	token, err := i.token(ctx, account, max(ttl, minTokenLife))
	if err != nil {
		return Credential{}, fmt.Errorf("issue credential: %w", err)
	}
	kubeconfig, err := marshalKubeconfig(i.clusterName, i.server, token.Token)
	if err != nil {
		return Credential{}, fmt.Errorf("issue credential: %w", err)
	}
	return Credential{Kubeconfig: kubeconfig, Expires: token.ExpirationTimestamp.Time}, nil
}

// token asks for a token first and creates the account when that is what is missing, so that a
// renewal is one request.
func (i *Issuer) token(ctx context.Context, account string, ttl time.Duration) (*authenticationv1.TokenRequestStatus, error) {
	accounts := i.client.Kube.CoreV1().ServiceAccounts(i.readers)
	seconds := int64(ttl / time.Second)
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}
	granted, err := accounts.CreateToken(ctx, account, request, metav1.CreateOptions{})
	if apierrors.IsNotFound(err) {
		if err := i.createAccount(ctx, account); err != nil {
			return nil, err
		}
		granted, err = accounts.CreateToken(ctx, account, request, metav1.CreateOptions{})
	}
	if err != nil {
		return nil, classify(err)
	}
	if granted.Status.Token == "" {
		return nil, errors.New("the API server returned no token")
	}
	return &granted.Status, nil
}

func (i *Issuer) createAccount(ctx context.Context, account string) error {
	automount := false // nothing runs under it
	_, err := i.client.Kube.CoreV1().ServiceAccounts(i.readers).Create(ctx, &corev1.ServiceAccount{
		ObjectMeta:                   metav1.ObjectMeta{Name: account, Labels: map[string]string{"app.kubernetes.io/managed-by": "roster"}},
		AutomountServiceAccountToken: &automount,
	}, metav1.CreateOptions{FieldManager: fieldManager})
	switch {
	case apierrors.IsAlreadyExists(err):
		return nil
	case apierrors.IsNotFound(err):
		return fmt.Errorf("namespace %s does not exist: install the chart, which makes it", i.readers)
	}
	return classify(err)
}

// marshalKubeconfig writes a kubeconfig that ParseKubeconfig takes.
func marshalKubeconfig(name string, server Server, token string) ([]byte, error) {
	return yaml.Marshal(clientcmdapi.Config{
		APIVersion: "v1",
		Kind:       "Config",
		Clusters: []clientcmdapi.NamedCluster{{Name: name, Cluster: clientcmdapi.Cluster{
			Server: server.Address, TLSServerName: server.Name, CertificateAuthorityData: server.CABundle,
		}}},
		AuthInfos:      []clientcmdapi.NamedAuthInfo{{Name: name, AuthInfo: clientcmdapi.AuthInfo{Token: token}}},
		Contexts:       []clientcmdapi.NamedContext{{Name: name, Context: clientcmdapi.Context{Cluster: name, AuthInfo: name}}},
		CurrentContext: name,
	})
}
