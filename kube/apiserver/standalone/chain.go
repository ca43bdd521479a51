// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package standalone

import (
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	genericapifilters "k8s.io/apiserver/pkg/endpoints/filters"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/util/notfoundhandler"
	"k8s.io/client-go/rest"
	aggregator "k8s.io/kube-aggregator/pkg/apiserver"
	"k8s.io/kube-openapi/pkg/common"
	kubernetesopenapi "k8s.io/kubernetes/pkg/generated/openapi"

	view "github.com/roster-mesh/roster/kube/api/registry/v1alpha1"
	"github.com/roster-mesh/roster/kube/apiserver/controlplane"
	"github.com/roster-mesh/roster/kube/apiserver/registry"
	"github.com/roster-mesh/roster/kube/apiserver/registry/openapi"
	"github.com/roster-mesh/roster/kube/apiserver/registry/rights"
)

// rolesSettle is for how long after a change of roles the authorizer of this process may go by those before: it and the
// registry are told by the same watch, one after the other.
const rolesSettle = time.Second

// newChain is upstream's server.CreateServerChain, with the registry API beside the built-in kinds.
func newChain(config *controlplane.Config, kinds *runtime.Scheme) (*aggregator.APIAggregator, error) {
	last := notfoundhandler.New(config.Generic.Serializer, genericapifilters.NoMuxAndDiscoveryIncompleteKey)
	crds, err := config.NewCRDs(genericapiserver.NewEmptyDelegateWithCustomHandler(last))
	if err != nil {
		return nil, err
	}
	native, err := config.New("roster-apiserver", crds.GenericAPIServer)
	if err != nil {
		return nil, err
	}
	if err := installRegistry(config, native, kinds); err != nil {
		return nil, err
	}
	priorities := controlplane.Priorities()
	// Below CRDs, which have 1000: "kubectl get clusters" means theirs.
	priorities[view.SchemeGroupVersion] = controlplane.Priority{Group: 900, Version: 1}
	return config.NewAggregator(native, crds, priorities)
}

// installRegistry serves the registry API in front of the server's own Clusters.
func installRegistry(config *controlplane.Config, to *genericapiserver.GenericAPIServer, kinds *runtime.Scheme) error {
	loopback := rest.CopyConfig(config.Generic.LoopbackClientConfig)
	loopback.ContentConfig = rest.ContentConfig{ContentType: runtime.ContentTypeJSON}
	loopback.QPS = -1
	loopback.DisableCompression = true
	clusters, lists, err := registry.Clients(loopback)
	if err != nil {
		return err
	}
	roles := rights.NewWatched(config.Informers)
	who := rights.New(rights.Options{Authorizer: config.Generic.Authorization.Authorizer, Roles: roles, Settle: rolesSettle})
	if err := roles.Notify(who.RolesChanged); err != nil {
		return err
	}
	return registry.New(registry.Options{Clusters: clusters, Lists: lists, Behind: "which is this one", Rights: who}).Install(to, kinds)
}

// definitions are the OpenAPI definitions of all kinds that are served.
func definitions(ref common.ReferenceCallback) map[string]common.OpenAPIDefinition {
	all := kubernetesopenapi.GetOpenAPIDefinitions(ref)
	maps.Copy(all, openapi.GetOpenAPIDefinitions(ref))
	return all
}
