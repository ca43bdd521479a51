// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api/v1"
	"sigs.k8s.io/yaml"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// minTokenLife is the shortest lifetime that an API server gives a token.
const minTokenLife = 10 * time.Minute

// Credential is a kubeconfig for reading the local cluster, and when its token expires.
type Credential struct {
	Kubeconfig []byte
	Expires    time.Time
}

// Issuer issues credentials for the local cluster to its peers. The chart binds what peers may read to
// the group of all ServiceAccounts of the readers' namespace, so that the Issuer needs no permission to
// write RBAC. It is safe for concurrent use.
type Issuer struct {
	client      *Client
	readers     string
	server      Server
	clusterName string

	mu       sync.Mutex
	accounts map[string]bool // that exist, since they got a token from this Issuer
}

// NewIssuer makes an issuer. namespace is the agent's own; ServiceAccounts are in its -readers
// namespace. server is where peers reach the local API server, and clusterName is the name of the
// cluster, the user and the context in the kubeconfigs.
func NewIssuer(c *Client, namespace string, server Server, clusterName string) *Issuer {
	return &Issuer{client: c, readers: v1alpha1.ReadersNamespace(namespace), server: server, clusterName: clusterName, accounts: map[string]bool{}}
}

// Issue requests a token of a ServiceAccount, which it creates where it is missing, and puts it into a
// kubeconfig. The API server may choose another lifetime than ttl; Expires is what it chose.
func (i *Issuer) Issue(ctx context.Context, account string, ttl time.Duration) (Credential, error) {
	if len(i.server.CABundle) == 0 {
		return Credential{}, errors.New("issue credential: the CA of the API server is not known: use a kubeconfig with certificate-authority-data")
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

// Revoke deletes a ServiceAccount, and with that every credential of it. The API server accepts its tokens for ten more
// seconds, since it caches them, and an open watch until its connection ends. It is no error if there is no such account.
func (i *Issuer) Revoke(ctx context.Context, account string) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	i.setExists(account, false)
	err := i.client.requests.Delete().AbsPath(i.path(), account).Do(ctx).Error()
	if err == nil || apierrors.IsNotFound(err) {
		return nil
	}
	return fmt.Errorf("revoke credentials of ServiceAccount %s/%s: %w", i.readers, account, classify(err))
}

// tokenStatus is the status of a TokenRequest.
type tokenStatus struct {
	Token               string      `json:"token"`
	ExpirationTimestamp metav1.Time `json:"expirationTimestamp"`
}

// token requests a token of an account. The account is created before its first token since the program started, and
// when it was deleted meanwhile: a new account takes two requests, a renewal one. Where no account can be created, as
// when a quota is used up, those that exist still get tokens.
func (i *Issuer) token(ctx context.Context, account string, ttl time.Duration) (*tokenStatus, error) {
	request := map[string]any{
		"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
		"spec": map[string]any{"expirationSeconds": int64(ttl / time.Second)},
	}
	var response struct {
		Status tokenStatus `json:"status"`
	}
	known := i.exists(account)
	var createErr error
	if !known {
		createErr = i.createAccount(ctx, account)
	}
	err := i.client.post(ctx, request, &response, i.path(), account, "token")
	if known && apierrors.IsNotFound(err) {
		if createErr = i.createAccount(ctx, account); createErr == nil {
			err = i.client.post(ctx, request, &response, i.path(), account, "token")
		}
	}
	if createErr != nil && apierrors.IsNotFound(err) {
		return nil, createErr
	}
	if err != nil {
		return nil, classify(err)
	}
	i.setExists(account, true)
	if response.Status.Token == "" {
		return nil, errors.New("the API server returned no token")
	}
	return &response.Status, nil
}

func (i *Issuer) exists(account string) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.accounts[account]
}

func (i *Issuer) setExists(account string, exists bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if exists {
		i.accounts[account] = true
	} else {
		delete(i.accounts, account)
	}
}

// path is the URL path of the readers' ServiceAccounts.
func (i *Issuer) path() string { return "/api/v1/namespaces/" + i.readers + "/serviceaccounts" }

func (i *Issuer) createAccount(ctx context.Context, account string) error {
	var created metav1.PartialObjectMetadata
	err := i.client.post(ctx, map[string]any{
		"apiVersion": "v1", "kind": "ServiceAccount",
		"metadata": map[string]any{"name": account, "labels": map[string]string{"app.kubernetes.io/managed-by": "roster"}},
		// No pod uses it.
		"automountServiceAccountToken": false,
	}, &created, i.path())
	switch {
	case apierrors.IsAlreadyExists(err):
		return nil
	case apierrors.IsNotFound(err):
		return fmt.Errorf("namespace %s does not exist: install the chart, which creates it", i.readers)
	}
	return classify(err)
}

// marshalKubeconfig writes a kubeconfig that ParseKubeconfig accepts.
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
