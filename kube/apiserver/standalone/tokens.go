// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package standalone

import (
	"context"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corev1listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/kubernetes/pkg/serviceaccount"
)

// tokenGetter finds what the token of a ServiceAccount is bound to. What the server does not know from its watches is read.
// These lag: at the start, and when another server has made the account. Without the read a good token would be refused,
// and an agent would tell people so. kube-apiserver reads, too; upstream's getter for a server without Pods does not.
type tokenGetter struct {
	accounts corev1listers.ServiceAccountLister
	secrets  corev1listers.SecretLister
	client   kubernetes.Interface
}

// watching returns t, which is told of what is watched.
func (t *tokenGetter) watching(factory informers.SharedInformerFactory) serviceaccount.ServiceAccountTokenGetter {
	t.accounts, t.secrets = factory.Core().V1().ServiceAccounts().Lister(), factory.Core().V1().Secrets().Lister()
	return t
}

// GetServiceAccount implements serviceaccount.ServiceAccountTokenGetter.
func (t *tokenGetter) GetServiceAccount(ctx context.Context, namespace, name string) (*corev1.ServiceAccount, error) {
	if account, err := t.accounts.ServiceAccounts(namespace).Get(name); err == nil {
		return account, nil
	}
	return t.client.CoreV1().ServiceAccounts(namespace).Get(ctx, name, metav1.GetOptions{})
}

// GetSecret implements serviceaccount.ServiceAccountTokenGetter.
func (t *tokenGetter) GetSecret(ctx context.Context, namespace, name string) (*corev1.Secret, error) {
	if secret, err := t.secrets.Secrets(namespace).Get(name); err == nil {
		return secret, nil
	}
	return t.client.CoreV1().Secrets(namespace).Get(ctx, name, metav1.GetOptions{})
}

// No token is bound to what follows: Pods and nodes are not served, and this server calls webhooks without one.

// GetPod implements serviceaccount.ServiceAccountTokenGetter.
func (*tokenGetter) GetPod(_ context.Context, _, name string) (*corev1.Pod, error) {
	return nil, apierrors.NewNotFound(corev1.Resource("pods"), name)
}

// GetNode implements serviceaccount.ServiceAccountTokenGetter.
func (*tokenGetter) GetNode(_ context.Context, name string) (*corev1.Node, error) {
	return nil, apierrors.NewNotFound(corev1.Resource("nodes"), name)
}

// GetValidatingWebhookConfiguration implements serviceaccount.ServiceAccountTokenGetter.
func (*tokenGetter) GetValidatingWebhookConfiguration(_ context.Context, name string) (*admissionregistrationv1.ValidatingWebhookConfiguration, error) {
	return nil, apierrors.NewNotFound(admissionregistrationv1.Resource("validatingwebhookconfigurations"), name)
}

// GetMutatingWebhookConfiguration implements serviceaccount.ServiceAccountTokenGetter.
func (*tokenGetter) GetMutatingWebhookConfiguration(_ context.Context, name string) (*admissionregistrationv1.MutatingWebhookConfiguration, error) {
	return nil, apierrors.NewNotFound(admissionregistrationv1.Resource("mutatingwebhookconfigurations"), name)
}
