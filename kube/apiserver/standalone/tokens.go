// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package standalone

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/kubernetes/pkg/serviceaccount"
)

// tokenGetter finds what the token of a ServiceAccount is bound to. What the server does not know from its watches is read.
// These lag: at the start, and when another server has made the account. Without the read a good token would be refused,
// and an agent would tell people so. kube-apiserver reads, too; upstream's getter for a server without Pods does not.
type tokenGetter struct {
	serviceaccount.ServiceAccountTokenGetter // upstream's, from watches

	client kubernetes.Interface
}

// around is a constructor that returns t, with what upstream's constructor makes in it.
func (t *tokenGetter) around(upstream func(informers.SharedInformerFactory) serviceaccount.ServiceAccountTokenGetter) func(informers.SharedInformerFactory) serviceaccount.ServiceAccountTokenGetter {
	return func(factory informers.SharedInformerFactory) serviceaccount.ServiceAccountTokenGetter {
		t.ServiceAccountTokenGetter = upstream(factory)
		return t
	}
}

// GetServiceAccount implements serviceaccount.ServiceAccountTokenGetter.
func (t *tokenGetter) GetServiceAccount(ctx context.Context, namespace, name string) (*corev1.ServiceAccount, error) {
	if account, err := t.ServiceAccountTokenGetter.GetServiceAccount(ctx, namespace, name); err == nil {
		return account, nil
	}
	return t.client.CoreV1().ServiceAccounts(namespace).Get(ctx, name, metav1.GetOptions{})
}

// GetSecret implements serviceaccount.ServiceAccountTokenGetter.
func (t *tokenGetter) GetSecret(ctx context.Context, namespace, name string) (*corev1.Secret, error) {
	if secret, err := t.ServiceAccountTokenGetter.GetSecret(ctx, namespace, name); err == nil {
		return secret, nil
	}
	return t.client.CoreV1().Secrets(namespace).Get(ctx, name, metav1.GetOptions{})
}
