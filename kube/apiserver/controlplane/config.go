// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"crypto/tls"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/endpoints/discovery/aggregated"
	openapinamer "k8s.io/apiserver/pkg/endpoints/openapi"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/apiserver/pkg/server/filters"
	serverstorage "k8s.io/apiserver/pkg/server/storage"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/apiserver/pkg/util/openapi"
	"k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	metricsfeatures "k8s.io/component-base/metrics/features"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/kubeapiserver"
	"k8s.io/kubernetes/pkg/serviceaccount"
)

// Config is what the servers of CRDs, built-in kinds and APIServices are built from.
type Config struct {
	Generic   *genericapiserver.Config
	Informers informers.SharedInformerFactory

	o         *Options
	storage   *serverstorage.DefaultStorageFactory
	client    kubernetes.Interface // this server's own
	clientCA  dynamiccertificates.CAContentProvider
	keys      serviceaccount.PublicKeysGetter // of ServiceAccount tokens
	services  webhook.ServiceResolver
	webhooks  webhook.AuthenticationInfoResolverWrapper
	transport *http.Transport // to webhooks and other API servers
}

// NewConfig stands for BuildGenericConfig and CreateConfig in pkg/controlplane/apiserver/config.go. Admit comes next.
func NewConfig(o *Options) (*Config, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	metricsfeatures.ApplyFeatureGates(utilfeature.DefaultFeatureGate)
	serviceaccount.RegisterMetrics()
	c := &Config{Generic: genericapiserver.NewConfig(legacyscheme.Codecs), o: o, services: webhook.NewDefaultServiceResolver()}
	if err := c.serving(); err != nil {
		return nil, err
	}
	c.openAPI()
	if err := c.stored(); err != nil {
		return nil, err
	}
	ctx := wait.ContextForChannel(c.Generic.DrainedNotify())
	if err := c.authentication(ctx); err != nil {
		return nil, err
	}
	if err := c.authorization(ctx); err != nil {
		return nil, err
	}
	c.Generic.AggregatedDiscoveryGroupManager = aggregated.NewResourceManager("apis")
	// Names are not to be verified: what is behind them is reached by an address.
	c.transport = utilnet.SetTransportDefaults(&http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}) //nolint:gosec // as upstream
	c.webhooks = webhook.NewDefaultAuthenticationInfoResolverWrapper(c.transport, nil, c.Generic.LoopbackClientConfig, c.Generic.TracerProvider)
	return c, nil
}

// serving is about requests, and this server's own client and watches.
func (c *Config) serving() error {
	c.Generic.MergedResourceConfig = resources()
	if err := c.o.Run.ApplyTo(c.Generic); err != nil {
		return err
	}
	if err := c.o.SecureServing.ApplyToConfig(c.Generic); err != nil {
		return err
	}
	c.Generic.LoopbackClientConfig.ContentType = runtime.ContentTypeProtobuf
	c.Generic.LoopbackClientConfig.DisableCompression = true
	var err error
	if c.client, err = kubernetes.NewForConfig(c.Generic.LoopbackClientConfig); err != nil {
		return err
	}
	c.Informers = informers.NewSharedInformerFactoryWithOptions(c.client, 10*time.Minute, informers.WithTransform(trim))
	c.Generic.LongRunningFunc = filters.BasicLongRunningRequestCheck(sets.NewString("watch", "proxy"), sets.NewString("attach", "exec", "proxy", "log", "portforward"))
	return c.o.Features.ApplyTo(c.Generic, c.client, c.Informers)
}

// trim drops what no part of an API server looks at.
func trim(object any) (any, error) {
	if accessor, err := meta.Accessor(object); err == nil && accessor.GetManagedFields() != nil {
		accessor.SetManagedFields(nil)
	}
	return object, nil
}

func (c *Config) openAPI() {
	definitions := openapi.GetOpenAPIDefinitionsWithoutDisabledFeatures(c.o.Definitions)
	namer := openapinamer.NewDefinitionNamer(append([]*runtime.Scheme{legacyscheme.Scheme}, c.o.Schemes...)...)
	c.Generic.OpenAPIConfig = genericapiserver.DefaultOpenAPIConfig(definitions, namer)
	c.Generic.OpenAPIConfig.Info.Title = "Kubernetes"
	c.Generic.OpenAPIV3Config = genericapiserver.DefaultOpenAPIV3Config(definitions, namer)
	c.Generic.OpenAPIV3Config.Info.Title = "Kubernetes"
}

func (c *Config) stored() error {
	c.o.Etcd.StorageConfig.Transport.TracerProvider = c.Generic.TracerProvider
	config := kubeapiserver.NewStorageFactoryConfigEffectiveVersion(c.Generic.EffectiveVersion)
	config.APIResourceConfig = c.Generic.MergedResourceConfig
	config.DefaultResourceEncoding.SetEffectiveVersion(c.Generic.EffectiveVersion)
	var err error
	if c.storage, err = config.Complete(c.o.Etcd).New(); err != nil {
		return err
	}
	c.storage.StorageConfig.StorageObjectCountTracker = c.Generic.StorageObjectCountTracker
	return c.o.Etcd.ApplyWithStorageFactoryTo(c.storage, c.Generic)
}
