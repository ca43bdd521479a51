// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package registry serves clusterregistry.k8s.io/v1alpha1: the Clusters of the API server behind it, in the form of the
// Kubernetes SIG's cluster registry, to each caller those that he may see (registry/rights).
//
// It keeps nothing. Each request becomes one to the API server behind, for the stored Clusters, and each answer is converted
// (kube/registry). So resourceVersion, continue, bookmarks, 410 and dry run are that server's own.
package registry

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apiserver/pkg/authentication/user"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	registryrest "k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/rest"

	view "github.com/roster-mesh/roster/kube/api/registry/v1alpha1"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/kube/apiserver/registry/rights"
	"github.com/roster-mesh/roster/kube/client/versioned"
	clusters "github.com/roster-mesh/roster/kube/client/versioned/typed/api/v1alpha1"
)

const (
	resourceClusters = "clusters"
	resourceStatus   = "clusters/status"
	subStatus        = "status"
	// fieldManager is who the API server behind says has written a stored Cluster.
	fieldManager = "roster-apiserver"
)

// Options of New. All are required.
type Options struct {
	Clusters clusters.ClusterRegistryV1alpha1Interface // of the API server behind
	Lists    clusters.ClusterRegistryV1alpha1Interface // the same, for lists and what is got by name; see Clients
	Behind   string                                    // its URL, for messages
	Rights   *rights.Rights
}

// Clients returns those of Options. In HTTP/2, each frame goes by way of other goroutines on both sides. A long answer, which an
// API server sends in frames of 4 KiB, takes twice as long as in HTTP/1.1, where it has a connection for itself; and a short one
// some tenths longer. Watches share one connection, and so do writes: HTTP/2 tells them which were not begun when it ends.
func Clients(config *rest.Config) (all, lists clusters.ClusterRegistryV1alpha1Interface, err error) {
	one, err := versioned.NewForConfig(config)
	if err != nil {
		return nil, nil, err
	}
	config = rest.CopyConfig(config)
	config.NextProtos = []string{"http/1.1"}
	two, err := versioned.NewForConfig(config)
	if err != nil {
		return nil, nil, err
	}
	return one.ClusterRegistryV1alpha1(), two.ClusterRegistryV1alpha1(), nil
}

// Server serves the group.
type Server struct{ o Options }

// New returns a Server.
func New(o Options) *Server { return &Server{o: o} }

// NewScheme returns the kinds that the group needs. What handlers work with is the served version itself.
func NewScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	utilruntime.Must(view.AddToScheme(scheme))
	scheme.AddKnownTypes(schema.GroupVersion{Group: view.GroupName, Version: runtime.APIVersionInternal}, &view.Cluster{}, &view.ClusterList{})
	utilruntime.Must(scheme.SetVersionPriority(view.SchemeGroupVersion))
	unversioned := schema.GroupVersion{Version: "v1"}
	metav1.AddToGroupVersion(scheme, unversioned)
	scheme.AddUnversionedTypes(unversioned, &metav1.Status{}, &metav1.APIVersions{}, &metav1.APIGroupList{}, &metav1.APIGroup{}, &metav1.APIResourceList{})
	return scheme
}

// Install makes a server serve the group.
func (s *Server) Install(to *genericapiserver.GenericAPIServer, scheme *runtime.Scheme) error {
	info := s.group(scheme)
	if err := to.InstallAPIGroup(&info); err != nil {
		return err
	}
	for _, service := range to.Handler.GoRestfulContainer.RegisteredWebServices() {
		if service.RootPath() == genericapiserver.APIGroupPrefix+"/"+view.SchemeGroupVersion.String() {
			service.Filter(inLargeWrites)
		}
	}
	return nil
}

func (s *Server) group(scheme *runtime.Scheme) genericapiserver.APIGroupInfo {
	info := genericapiserver.NewDefaultAPIGroupInfo(view.GroupName, scheme, runtime.NewParameterCodec(scheme), serializer.NewCodecFactory(scheme))
	info.NegotiatedSerializer = clusterSerializer{info.NegotiatedSerializer}
	info.VersionedResourcesStorageMap[view.SchemeGroupVersion.Version] = map[string]registryrest.Storage{
		resourceClusters: &store{Server: s},
		resourceStatus:   &statusStore{Server: s},
	}
	return info
}

// caller returns who asks.
func caller(ctx context.Context) (user.Info, error) {
	info, ok := genericapirequest.UserFrom(ctx)
	if !ok {
		return nil, apierrors.NewUnauthorized("the caller is not known")
	}
	return info, nil
}

// target is what a right to a stored Cluster is about.
func target(c *v1alpha1.Cluster, subresource string) rights.Target {
	return rights.Target{Name: c.Name, Group: c.Labels[rights.GroupLabel], Subresource: subresource}
}
