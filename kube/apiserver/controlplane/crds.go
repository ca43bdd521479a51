// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsv1beta1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apiserver"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured/unstructuredscheme"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor"
	"k8s.io/apimachinery/pkg/runtime/serializer/recognizer"
	"k8s.io/apiserver/pkg/registry/generic"
	genericapiserver "k8s.io/apiserver/pkg/server"
	genericoptions "k8s.io/apiserver/pkg/server/options"
	serverstorage "k8s.io/apiserver/pkg/server/storage"
)

// NewCRDs returns the server of CRDs and of the kinds that they define. It stands for
// pkg/controlplane/apiserver/apiextensions.go. What is stored is v1beta1, which is the more compact.
func (c *Config) NewCRDs(next genericapiserver.DelegationTarget) (*apiextensions.CustomResourceDefinitions, error) {
	own, etcd, err := c.other(apiextensions.Codecs.LegacyCodec(apiextensionsv1beta1.SchemeGroupVersion, apiextensionsv1.SchemeGroupVersion),
		runtime.NewMultiGroupVersioner(apiextensionsv1beta1.SchemeGroupVersion, schema.GroupKind{Group: apiextensionsv1beta1.GroupName}),
		apiextensions.DefaultAPIResourceConfigSource())
	if err != nil {
		return nil, err
	}
	config := &apiextensions.Config{
		GenericConfig: own,
		ExtraConfig: apiextensions.ExtraConfig{
			CRDRESTOptionsGetter: customOptions(*etcd, own),
			MasterCount:          c.o.Servers,
			AuthResolverWrapper:  c.webhooks,
			ServiceResolver:      c.services,
		},
	}
	return config.Complete().New(next)
}

// other is the configuration of another server in this process, which stores its own kinds.
func (c *Config) other(codec runtime.Codec, versions runtime.GroupVersioner, enabled *serverstorage.ResourceConfig) (*genericapiserver.RecommendedConfig, *genericoptions.EtcdOptions, error) {
	own := *c.Generic
	own.PostStartHooks = map[string]genericapiserver.PostStartHookConfigEntry{} // they run once
	own.RESTOptionsGetter = nil
	own.MergedResourceConfig = enabled
	etcd := *c.o.Etcd
	etcd.StorageConfig.Codec = codec
	etcd.StorageConfig.EncodeVersioner = versions
	etcd.SkipHealthEndpoints = true // the server of the built-in kinds has them
	if err := etcd.ApplyTo(&own); err != nil {
		return nil, nil, err
	}
	own.PostStartHooks = map[string]genericapiserver.PostStartHookConfigEntry{}
	return &genericapiserver.RecommendedConfig{Config: own, SharedInformerFactory: c.Informers}, &etcd, nil
}

// customOptions stand for NewCRDRESTOptionsGetter in k8s.io/apiextensions-apiserver/pkg/cmd/server/options: kinds of CRDs
// are stored as JSON, and read as either.
func customOptions(etcd genericoptions.EtcdOptions, own *genericapiserver.RecommendedConfig) generic.RESTOptionsGetter {
	storage := etcd.StorageConfig
	storage.StorageObjectCountTracker = own.StorageObjectCountTracker
	storage.Codec = runtime.NewCodec(unstructured.UnstructuredJSONScheme, recognizer.NewDecoder(
		cbor.NewSerializer(unstructuredscheme.NewUnstructuredCreator(), unstructuredscheme.NewUnstructuredObjectTyper()),
		unstructured.UnstructuredJSONScheme,
	))
	return etcd.CreateRESTOptionsGetter(&genericoptions.SimpleStorageFactory{StorageConfig: storage}, own.ResourceTransformers)
}
