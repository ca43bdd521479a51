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
	accounts    sync.Map // that exist, since they got a token from this Issuer
}

// NewIssuer makes an issuer. namespace is the agent's own; ServiceAccounts are in its -readers
// namespace. server is where peers reach the local API server, and clusterName is the name of the
// cluster, the user and the context in the kubeconfigs.
func NewIssuer(c *Client, namespace string, server Server, clusterName string) *Issuer {
	return &Issuer{client: c, readers: v1alpha1.ReadersNamespace(namespace), server: server, clusterName: clusterName}
}

// Issue requests a token of a reader's ServiceAccount, which it creates where it is missing, and puts it into a
// kubeconfig. The API server may choose another lifetime than ttl; Expires is what it chose.
func (i *Issuer) Issue(ctx context.Context, account string, ttl time.Duration) (Credential, error) {
	return i.issue(ctx, ttl, func(ctx context.Context, spec map[string]any) (tokenStatus, error) {
		return i.token(ctx, account, spec)
	})
}

// IssueBound is Issue for a ServiceAccount that exists, in the namespace of a Secret. The deletion of that Secret ends the
// token, as Revoke does.
func (i *Issuer) IssueBound(ctx context.Context, account string, to *Secret, ttl time.Duration) (Credential, error) {
	return i.issue(ctx, ttl, func(ctx context.Context, spec map[string]any) (tokenStatus, error) {
		spec["boundObjectRef"] = map[string]any{"apiVersion": "v1", "kind": "Secret", "name": to.Name, "uid": to.UID}
		return i.request(ctx, spec, to.Namespace, account)
	})
}

func (i *Issuer) issue(ctx context.Context, ttl time.Duration, request func(context.Context, map[string]any) (tokenStatus, error)) (Credential, error) {
	if len(i.server.CABundle) == 0 {
		return Credential{}, errors.New("issue credential: the CA of the API server is not known: use a kubeconfig with certificate-authority-data")
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	token, err := request(ctx, map[string]any{"expirationSeconds": int64(max(ttl, minTokenLife) / time.Second)})
	if err == nil && token.Token == "" {
		err = errors.New("the API server returned no token")
	}
	if err != nil {
		return Credential{}, fmt.Errorf("issue credential: %w", err)
	}
	kubeconfig, err := marshalKubeconfig(i.clusterName, i.server, token.Token)
	return Credential{Kubeconfig: kubeconfig, Expires: token.ExpirationTimestamp.Time}, err
}

// Revoke deletes a ServiceAccount, and with that every credential of it. The API server accepts its tokens for ten more
// seconds, since it caches them, and an open watch until its connection ends. It is no error if there is no such account.
func (i *Issuer) Revoke(ctx context.Context, account string) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	i.accounts.Delete(account)
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

// token requests a token of a reader's account. The account is created before its first token since the program started,
// and when it was deleted meanwhile: a new account takes two requests, a renewal one. Where no account can be created, as
// when a quota is used up, those that exist still get tokens.
func (i *Issuer) token(ctx context.Context, account string, spec map[string]any) (tokenStatus, error) {
	_, known := i.accounts.Load(account)
	var createErr error
	if !known {
		createErr = i.createAccount(ctx, account)
	}
	token, err := i.request(ctx, spec, i.readers, account)
	if known && apierrors.IsNotFound(err) {
		if createErr = i.createAccount(ctx, account); createErr == nil {
			token, err = i.request(ctx, spec, i.readers, account)
		}
	}
	if createErr != nil && apierrors.IsNotFound(err) {
		return token, createErr
	}
	if err == nil {
		i.accounts.Store(account, true)
	}
	return token, err
}

// request sends a TokenRequest.
func (i *Issuer) request(ctx context.Context, spec map[string]any, namespace, account string) (tokenStatus, error) {
	var response struct {
		Status tokenStatus `json:"status"`
	}
	err := i.client.post(ctx, map[string]any{"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec},
		&response, "/api/v1/namespaces", namespace, "serviceaccounts", account, "token")
	return response.Status, classify(err)
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
