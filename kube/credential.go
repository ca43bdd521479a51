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

	mu       sync.Mutex
	accounts map[string]bool // those that have had a token from us
}

// NewIssuer makes an issuer. namespace is the agent's own; accounts live in its -readers namespace.
// server is where peers reach the local API server, and clusterName names the cluster, the user and
// the context of the kubeconfigs.
func NewIssuer(c *Client, namespace string, server Server, clusterName string) *Issuer {
	return &Issuer{client: c, readers: v1alpha1.ReadersNamespace(namespace), server: server, clusterName: clusterName, accounts: map[string]bool{}}
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

// Revoke ends every credential of an account: the API server accepts its tokens for the ten seconds that it remembers
// them, and an open watch until its connection ends. An account that does not exist has none.
func (i *Issuer) Revoke(ctx context.Context, account string) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	i.know(account, false)
	err := i.client.requests.Delete().AbsPath(i.path(), account).Do(ctx).Error()
	if err == nil || apierrors.IsNotFound(err) {
		return nil
	}
	return fmt.Errorf("revoke credentials of ServiceAccount %s/%s: %w", i.readers, account, classify(err))
}

// grant is the status of a TokenRequest.
type grant struct {
	Token               string      `json:"token"`
	ExpirationTimestamp metav1.Time `json:"expirationTimestamp"`
}

// token makes a token of an account. The account is created before its first one since the program started, and when
// somebody deleted it: a newcomer costs two requests, a renewal one. Where no account can be created, as when a quota
// is used up, those that are there get tokens still.
func (i *Issuer) token(ctx context.Context, account string, ttl time.Duration) (*grant, error) {
	request := map[string]any{
		"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
		"spec": map[string]any{"expirationSeconds": int64(ttl / time.Second)},
	}
	var granted struct {
		Status grant `json:"status"`
	}
	known := i.knows(account)
	var missing error // why there is none
	if !known {
		missing = i.createAccount(ctx, account)
	}
	err := i.client.post(ctx, request, &granted, i.path(), account, "token")
	if known && apierrors.IsNotFound(err) {
		if missing = i.createAccount(ctx, account); missing == nil {
			err = i.client.post(ctx, request, &granted, i.path(), account, "token")
		}
	}
	if missing != nil && apierrors.IsNotFound(err) {
		return nil, missing
	}
	if err != nil {
		return nil, classify(err)
	}
	i.know(account, true)
	if granted.Status.Token == "" {
		return nil, errors.New("the API server returned no token")
	}
	return &granted.Status, nil
}

func (i *Issuer) knows(account string) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.accounts[account]
}

func (i *Issuer) know(account string, there bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if there {
		i.accounts[account] = true
	} else {
		delete(i.accounts, account)
	}
}

// path is that of the readers' ServiceAccounts.
func (i *Issuer) path() string { return "/api/v1/namespaces/" + i.readers + "/serviceaccounts" }

func (i *Issuer) createAccount(ctx context.Context, account string) error {
	var made metav1.PartialObjectMetadata
	err := i.client.post(ctx, map[string]any{
		"apiVersion": "v1", "kind": "ServiceAccount",
		"metadata": map[string]any{"name": account, "labels": map[string]string{"app.kubernetes.io/managed-by": "roster"}},
		// Nothing runs under it.
		"automountServiceAccountToken": false,
	}, &made, i.path())
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
