// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"
	serverstorage "k8s.io/apiserver/pkg/server/storage"
	"k8s.io/client-go/util/keyutil"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	configmaps "k8s.io/kubernetes/pkg/registry/core/configmap/storage"
	events "k8s.io/kubernetes/pkg/registry/core/event/storage"
	namespaces "k8s.io/kubernetes/pkg/registry/core/namespace/storage"
	resourcequotas "k8s.io/kubernetes/pkg/registry/core/resourcequota/storage"
	secrets "k8s.io/kubernetes/pkg/registry/core/secret/storage"
	serviceaccounts "k8s.io/kubernetes/pkg/registry/core/serviceaccount/storage"
	"k8s.io/kubernetes/pkg/serviceaccount"
)

// core serves the core group. It stands for pkg/registry/core/rest/storage_core_generic.go.
type core struct {
	tokens    serviceaccount.TokenGenerator
	audiences authenticator.Audiences
}

func (c *Config) core() (*core, error) {
	key, err := keyutil.PrivateKeyFromFile(c.o.SigningKey)
	if err != nil {
		return nil, err
	}
	tokens, err := serviceaccount.JWTTokenGenerator(c.o.Issuer, key)
	if err != nil {
		return nil, err
	}
	return &core{tokens: tokens, audiences: c.Generic.Authentication.APIAudiences}, nil
}

// GroupName implements provider.
func (*core) GroupName() string { return corev1.GroupName }

// NewRESTStorage implements provider.
func (c *core) NewRESTStorage(_ serverstorage.APIResourceConfigSource, options generic.RESTOptionsGetter) (genericapiserver.APIGroupInfo, error) {
	served, err := c.served(options)
	return genericapiserver.APIGroupInfo{
		PrioritizedVersions:          legacyscheme.Scheme.PrioritizedVersionsForGroup(corev1.GroupName),
		VersionedResourcesStorageMap: map[string]map[string]rest.Storage{corev1.SchemeGroupVersion.Version: served},
		Scheme:                       legacyscheme.Scheme,
		ParameterCodec:               legacyscheme.ParameterCodec,
		NegotiatedSerializer: serializer.NewCodecFactory(legacyscheme.Scheme,
			serializer.WithStreamingCollectionEncodingToJSON(), serializer.WithStreamingCollectionEncodingToProtobuf()),
	}, err
}

func (c *core) served(options generic.RESTOptionsGetter) (map[string]rest.Storage, error) {
	event, err := events.NewREST(options, uint64(eventTTL.Seconds()))
	if err != nil {
		return nil, err
	}
	quota, quotaStatus, err := resourcequotas.NewREST(options)
	if err != nil {
		return nil, err
	}
	secret, err := secrets.NewREST(options)
	if err != nil {
		return nil, err
	}
	configMap, err := configmaps.NewREST(options)
	if err != nil {
		return nil, err
	}
	namespace, namespaceStatus, namespaceFinalize, err := namespaces.NewREST(options)
	if err != nil {
		return nil, err
	}
	account, err := serviceaccounts.NewREST(options, c.tokens, c.audiences, authorizerfactory.NewAlwaysDenyAuthorizer(), 0,
		none("pods"), secret.Store, none("nodes"), noValidatingWebhook{}, noMutatingWebhook{},
		true, serviceaccount.ExpirationExtensionSeconds*time.Second)
	if err != nil {
		return nil, err
	}
	return map[string]rest.Storage{
		"events":                event,
		"resourcequotas":        quota,
		"resourcequotas/status": quotaStatus,
		"namespaces":            namespace,
		"namespaces/status":     namespaceStatus,
		"namespaces/finalize":   namespaceFinalize,
		"secrets":               secret,
		"serviceaccounts":       account,
		"serviceaccounts/token": account.Token,
		"configmaps":            configMap,
	}, nil
}

// none finds no object: no token is bound to one of a kind that is not served.
type none string

// Get implements rest.Getter.
func (n none) Get(_ context.Context, name string, _ *metav1.GetOptions) (runtime.Object, error) {
	return nil, apierrors.NewNotFound(corev1.Resource(string(n)), name)
}

// Nor is one bound to a webhook: that is how kube-apiserver calls webhooks, and this server does not.
type (
	noValidatingWebhook struct{}
	noMutatingWebhook   struct{}
)

func (noValidatingWebhook) Get(_ context.Context, name string, _ metav1.GetOptions) (*admissionregistrationv1.ValidatingWebhookConfiguration, error) {
	return nil, apierrors.NewNotFound(admissionregistrationv1.Resource("validatingwebhookconfigurations"), name)
}

func (noMutatingWebhook) Get(_ context.Context, name string, _ metav1.GetOptions) (*admissionregistrationv1.MutatingWebhookConfiguration, error) {
	return nil, apierrors.NewNotFound(admissionregistrationv1.Resource("mutatingwebhookconfigurations"), name)
}
