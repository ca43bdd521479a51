// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"fmt"
	"net/http"
	"strings"
	"sync"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apiserver"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/client-go/tools/cache"
	apiregistration "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/kube-aggregator/pkg/apis/apiregistration/v1/helper"
	apiregistrationv1beta1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1beta1"
	aggregator "k8s.io/kube-aggregator/pkg/apiserver"
	aggregatorscheme "k8s.io/kube-aggregator/pkg/apiserver/scheme"
	apiregistrationclient "k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset/typed/apiregistration/v1"
	"k8s.io/kube-aggregator/pkg/controllers/autoregister"
	"k8s.io/kubernetes/pkg/controlplane/controller/crdregistration"
)

// crdWorkers is how many CRDs and APIServices are taken up at a time.
const crdWorkers = 5

// Priority of a group in discovery, and of a version in its group: what is higher comes first.
type Priority struct {
	Group, Version int32
}

// Priorities stand for DefaultGenericAPIServicePriorities in pkg/controlplane/apiserver/aggregator.go, for what is served.
func Priorities() map[schema.GroupVersion]Priority {
	return map[schema.GroupVersion]Priority{
		{Version: "v1"}:                                        {18000, 1},
		{Group: "events.k8s.io", Version: "v1"}:                {17750, 15},
		{Group: "authentication.k8s.io", Version: "v1"}:        {17700, 15},
		{Group: "authorization.k8s.io", Version: "v1"}:         {17600, 15},
		{Group: "certificates.k8s.io", Version: "v1"}:          {17300, 15},
		{Group: "rbac.authorization.k8s.io", Version: "v1"}:    {17000, 15},
		{Group: "apiextensions.k8s.io", Version: "v1"}:         {16700, 15},
		{Group: "admissionregistration.k8s.io", Version: "v1"}: {16700, 15},
		{Group: "coordination.k8s.io", Version: "v1"}:          {16500, 15},
		{Group: "flowcontrol.apiserver.k8s.io", Version: "v1"}: {16100, 21},
	}
}

// NewAggregator returns the server of APIServices, which is in front of the others. It stands for
// pkg/controlplane/apiserver/aggregator.go.
func (c *Config) NewAggregator(native *genericapiserver.GenericAPIServer, crds *apiextensions.CustomResourceDefinitions, priorities map[schema.GroupVersion]Priority) (*aggregator.APIAggregator, error) {
	own, _, err := c.other(aggregatorscheme.Codecs.LegacyCodec(apiregistration.SchemeGroupVersion, apiregistrationv1beta1.SchemeGroupVersion),
		runtime.NewMultiGroupVersioner(apiregistration.SchemeGroupVersion, schema.GroupKind{Group: apiregistration.GroupName}),
		aggregator.DefaultAPIResourceConfigSource())
	if err != nil {
		return nil, err
	}
	own.SkipOpenAPIInstallation = true // it has one of its own
	config := &aggregator.Config{GenericConfig: own, ExtraConfig: aggregator.ExtraConfig{
		ServiceResolver:                           c.services,
		ProxyTransport:                            c.transport,
		RejectForwardingRedirects:                 true,
		DisableRemoteAvailableConditionController: true, // Services are not served
	}}
	s, err := config.Complete().NewWithDelegate(native)
	if err != nil {
		return nil, err
	}
	client, err := apiregistrationclient.NewForConfig(own.LoopbackClientConfig)
	if err != nil {
		return nil, err
	}
	for version, priority := range priorities {
		own.AggregatedDiscoveryGroupManager.SetGroupVersionPriority(metav1.GroupVersion(version), int(priority.Group), int(priority.Version))
	}
	services := s.APIRegistrationInformers.Apiregistration().V1().APIServices()
	register := autoregister.NewAutoRegisterController(services, client)
	available := &available{missing: sets.New[string]()}
	for _, service := range apiServices(native.ListedPaths(), priorities) {
		register.AddAPIServiceToSyncOnStart(service)
		available.missing.Insert(service.Name)
	}
	_, err = services.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    available.seen,
		UpdateFunc: func(_, object any) { available.seen(object) },
	})
	if err != nil {
		return nil, err
	}
	ofCRDs := crdregistration.NewCRDRegistrationController(crds.Informers.Apiextensions().V1().CustomResourceDefinitions(), register)
	err = s.GenericAPIServer.AddPostStartHook("kube-apiserver-autoregistration", func(hook genericapiserver.PostStartHookContext) error {
		go ofCRDs.Run(crdWorkers, hook.Done())
		go func() {
			ofCRDs.WaitForInitialSync() // or APIServices of CRDs that are there would be removed
			register.Run(crdWorkers, hook.Done())
		}()
		return nil
	})
	if err != nil {
		return nil, err
	}
	return s, s.GenericAPIServer.AddBootSequenceHealthChecks(healthz.NamedCheck("autoregister-completion", available.check))
}

// apiServices are those of what a server serves itself. What has no priority has none.
func apiServices(paths []string, priorities map[schema.GroupVersion]Priority) []*apiregistration.APIService {
	var services []*apiregistration.APIService
	for _, path := range paths {
		var version schema.GroupVersion
		if parts := strings.Split(path, "/"); path == "/api/v1" {
			version.Version = "v1"
		} else if len(parts) == 4 && parts[1] == "apis" {
			version = schema.GroupVersion{Group: parts[2], Version: parts[3]}
		}
		if priority, ok := priorities[version]; ok {
			services = append(services, &apiregistration.APIService{
				ObjectMeta: metav1.ObjectMeta{Name: version.Version + "." + version.Group},
				Spec: apiregistration.APIServiceSpec{
					Group: version.Group, Version: version.Version,
					GroupPriorityMinimum: priority.Group, VersionPriority: priority.Version,
				},
			})
		}
	}
	return services
}

// available is healthy once each of the server's own APIServices has been.
type available struct {
	mu      sync.Mutex
	missing sets.Set[string]
}

func (a *available) seen(object any) {
	service, ok := object.(*apiregistration.APIService)
	if !ok || !helper.IsAPIServiceConditionTrue(service, apiregistration.Available) {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.missing.Delete(service.Name)
}

func (a *available) check(*http.Request) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.missing.Len() > 0 {
		return fmt.Errorf("missing APIService: %v", sets.List(a.missing))
	}
	return nil
}
