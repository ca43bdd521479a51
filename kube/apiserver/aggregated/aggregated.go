// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package aggregated runs the registry API as an API server behind the aggregation layer of a Kubernetes API server, which
// authenticates callers and passes their requests on. It stores nothing and needs no etcd. Admission and priority and fairness
// are left to the server behind, which sees each write and each list as well.
package aggregated

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	openapinamer "k8s.io/apiserver/pkg/endpoints/openapi"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	genericoptions "k8s.io/apiserver/pkg/server/options"
	utilcompatibility "k8s.io/apiserver/pkg/util/compatibility"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	view "github.com/roster-mesh/roster/kube/api/registry/v1alpha1"
	"github.com/roster-mesh/roster/kube/apiserver/registry"
	"github.com/roster-mesh/roster/kube/apiserver/registry/openapi"
	"github.com/roster-mesh/roster/kube/apiserver/registry/rights"
	"github.com/roster-mesh/roster/kube/client/versioned"
)

const (
	// reviewsLive is for how long an answer of the API server about a caller is used again, and rolesSettle for how long after
	// a change of roles it may therefore be an old one.
	reviewsLive = 10 * time.Second
	rolesSettle = reviewsLive + time.Second
	// reviewWithin bounds how long such an answer may take.
	reviewWithin = 5 * time.Second
	// endWithin is how long requests may go on when the server ends.
	endWithin = 5 * time.Second
)

// Options of Run. All but Kubeconfig are required.
type Options struct {
	Config     *rest.Config // of the API server in front, which is also the one behind
	Kubeconfig string       // the file that Config was read from; empty in a pod
	Listener   net.Listener
	Serving    dynamiccertificates.CertKeyContentProvider
	Ready      func() // is called once, when the server serves
	Log        *slog.Logger
}

// Run serves until ctx ends.
func Run(ctx context.Context, o Options) error {
	server, err := newServer(o)
	if err != nil {
		return err
	}
	server.ShutdownTimeout = endWithin
	prepared := server.PrepareRun()
	go func() {
		if awaitReady(ctx, server.LoopbackClientConfig) && o.Ready != nil {
			o.Ready()
		}
	}()
	return prepared.RunWithContext(ctx)
}

// newServer returns the server, ready to run.
func newServer(o Options) (*genericapiserver.GenericAPIServer, error) {
	kinds := registry.NewScheme()
	config := genericapiserver.NewRecommendedConfig(serializer.NewCodecFactory(kinds))
	config.EffectiveVersion = utilcompatibility.DefaultBuildEffectiveVersion()
	config.EnableProfiling = false
	config.ShutdownWatchTerminationGracePeriod = 0
	names := openapinamer.NewDefinitionNamer(kinds)
	config.OpenAPIConfig = genericapiserver.DefaultOpenAPIConfig(openapi.GetOpenAPIDefinitions, names)
	config.OpenAPIConfig.Info.Title = "Cluster registry"
	config.OpenAPIV3Config = genericapiserver.DefaultOpenAPIV3Config(openapi.GetOpenAPIDefinitions, names)
	config.OpenAPIV3Config.Info.Title = config.OpenAPIConfig.Info.Title

	serving := genericoptions.NewSecureServingOptions().WithLoopback()
	serving.Listener = o.Listener
	serving.ServerCert.GeneratedCert = o.Serving
	if err := serving.ApplyTo(&config.SecureServing, &config.LoopbackClientConfig); err != nil {
		return nil, err
	}
	authentication := genericoptions.NewDelegatingAuthenticationOptions()
	authentication.RemoteKubeConfigFile = o.Kubeconfig
	authorization := genericoptions.NewDelegatingAuthorizationOptions()
	authorization.RemoteKubeConfigFile = o.Kubeconfig
	authorization.AllowCacheTTL, authorization.DenyCacheTTL = reviewsLive, reviewsLive
	authorization.ClientTimeout = reviewWithin
	if errs := append(authentication.Validate(), authorization.Validate()...); len(errs) > 0 {
		return nil, utilerrors.NewAggregate(errs)
	}
	if err := authentication.ApplyTo(&config.Authentication, config.SecureServing, config.OpenAPIConfig); err != nil {
		return nil, fmt.Errorf("ask the API server how it passes callers on: %w", err)
	}
	if err := authorization.ApplyTo(&config.Authorization); err != nil {
		return nil, err
	}
	reviews := config.Authorization.Authorizer
	config.Authorization.Authorizer = authorizer.AuthorizerFunc(func(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
		if ownKinds(a) {
			return authorizer.DecisionAllow, "", nil
		}
		return reviews.Authorize(ctx, a)
	})

	client, err := kubernetes.NewForConfig(o.Config)
	if err != nil {
		return nil, err
	}
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTransform(withoutManagedFields))
	config.SharedInformerFactory = factory
	server, err := config.Complete().New("roster-apiserver", genericapiserver.NewEmptyDelegate())
	if err != nil {
		return nil, err
	}
	return server, install(o, server, kinds, factory, reviews)
}

// install makes the server serve the registry API.
func install(o Options, server *genericapiserver.GenericAPIServer, kinds *runtime.Scheme, factory informers.SharedInformerFactory, reviews authorizer.Authorizer) error {
	plain := rest.CopyConfig(o.Config)
	plain.QPS = -1 // the API server's own priority and fairness decides
	clusters, err := versioned.NewForConfig(plain)
	if err != nil {
		return err
	}
	roles := rights.NewWatched(factory)
	who := rights.New(rights.Options{Authorizer: reviews, Roles: roles, Settle: rolesSettle})
	err = errors.Join(
		roles.Notify(who.RolesChanged),
		server.AddReadyzChecks(rolesKnown{roles}),
	)
	if err != nil {
		return err
	}
	return registry.New(registry.Options{Clusters: clusters.ClusterRegistryV1alpha1(), Behind: o.Config.Host, Rights: who}).Install(server, kinds)
}

// ownKinds says whether somebody who is known asks for Clusters. The API server in front has asked whether he may; which ones
// he sees and changes, the registry asks for each request, so that an answer that cannot be had is told from a no.
func ownKinds(a authorizer.Attributes) bool {
	return a.IsResourceRequest() && a.GetAPIGroup() == view.GroupName && a.GetUser() != nil && slices.Contains(a.GetUser().GetGroups(), user.AllAuthenticated)
}

// withoutManagedFields keeps of roles what their rights are.
func withoutManagedFields(obj any) (any, error) {
	if object, err := meta.Accessor(obj); err == nil {
		object.SetManagedFields(nil)
	}
	return obj, nil
}
