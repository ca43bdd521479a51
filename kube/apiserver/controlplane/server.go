// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apiserver/pkg/features"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/kubernetes/pkg/controlplane/controller/clusterauthenticationtrust"
	"k8s.io/kubernetes/pkg/controlplane/controller/legacytokentracking"
	"k8s.io/kubernetes/pkg/controlplane/controller/systemnamespaces"
	"k8s.io/kubernetes/pkg/routes"
	"k8s.io/kubernetes/pkg/serviceaccount"
)

// New returns the server of the built-in kinds, which passes on what it does not serve. It stands for
// pkg/controlplane/apiserver/server.go, without the leases of API servers that know of each other.
func (c *Config) New(name string, next genericapiserver.DelegationTarget) (*genericapiserver.GenericAPIServer, error) {
	completed := c.Generic.Complete(c.Informers)
	s, err := completed.New(name, next)
	if err != nil {
		return nil, err
	}
	metadata, err := serviceaccount.NewOpenIDMetadataProvider(c.o.Issuer, "", completed.ExternalAddress, c.keys)
	if err != nil {
		return nil, fmt.Errorf("discovery of the issuer of ServiceAccount tokens: %w", err)
	}
	routes.NewOpenIDMetadataServer(metadata).Install(s.Handler.GoRestfulContainer)

	s.AddPostStartHookOrDie("start-system-namespaces-controller", func(hook genericapiserver.PostStartHookContext) error {
		system := []string{metav1.NamespaceSystem, metav1.NamespacePublic, metav1.NamespaceDefault}
		go systemnamespaces.NewController(system, c.client, c.Informers.Core().V1().Namespaces()).Run(hook.Done())
		return nil
	})
	s.AddPostStartHookOrDie("start-cluster-authentication-info-controller", c.publishCA)
	if utilfeature.DefaultFeatureGate.Enabled(features.WatchCacheInitializationPostStartHook) {
		s.AddPostStartHookOrDie("storage-readiness", s.StorageReadinessHook.Hook)
	}
	s.AddPostStartHookOrDie("start-legacy-token-tracking-controller", func(hook genericapiserver.PostStartHookContext) error {
		go legacytokentracking.NewController(c.client).RunWithContext(hook)
		return nil
	})
	return s, c.installAPIs(s)
}

// publishCA keeps the CA of client certificates in a ConfigMap, for API servers behind this one.
func (c *Config) publishCA(hook genericapiserver.PostStartHookContext) error {
	info := clusterauthenticationtrust.ClusterAuthenticationInfo{ClientCA: c.clientCA}
	controller := clusterauthenticationtrust.NewClusterAuthenticationTrustController(info, c.client)
	c.clientCA.AddListener(controller)
	if ca, ok := c.clientCA.(dynamiccertificates.ControllerRunner); ok {
		if err := ca.RunOnce(hook); err != nil {
			utilruntime.HandleError(err)
		}
		go ca.Run(hook, 1)
	}
	go controller.Run(hook, 1)
	return nil
}
