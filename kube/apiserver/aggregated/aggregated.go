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
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/cache"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	openapinamer "k8s.io/apiserver/pkg/endpoints/openapi"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/apiserver/pkg/server/healthz"
	genericoptions "k8s.io/apiserver/pkg/server/options"
	utilcompatibility "k8s.io/apiserver/pkg/util/compatibility"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/roster-mesh/roster/kube/apiserver/registry"
	"github.com/roster-mesh/roster/kube/apiserver/registry/openapi"
	"github.com/roster-mesh/roster/kube/apiserver/registry/rights"
)

// endWithin is how long requests may go on when the server ends.
const endWithin = 5 * time.Second

// Options of Run. All but Kubeconfig and Checks are required.
type Options struct {
	Config     *rest.Config // of the API server in front, which is also the one behind
	Kubeconfig string       // the file that Config was read from; empty in a pod
	Listener   net.Listener
	Serving    dynamiccertificates.CertKeyContentProvider
	Checks     []healthz.HealthChecker // of readiness, beside the server's own
	Ready      func()                  // is called once, when the server serves
	Log        *slog.Logger
}

// Run serves until ctx ends.
func Run(ctx context.Context, o Options) error {
	server, err := newServer(ctx, o)
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
func newServer(ctx context.Context, o Options) (*genericapiserver.GenericAPIServer, error) {
	kinds := registry.NewScheme()
	config := genericapiserver.NewRecommendedConfig(serializer.NewCodecFactory(kinds))
	config.EffectiveVersion = utilcompatibility.DefaultBuildEffectiveVersion()
	config.EnableProfiling = false
	config.MaxRequestsInFlight, config.MaxMutatingRequestsInFlight = 0, 0 // probes would share the limit, and fail with it
	config.ShutdownWatchTerminationGracePeriod = 0
	describe(config, kinds)
	serving := genericoptions.NewSecureServingOptions().WithLoopback()
	serving.Listener = o.Listener
	serving.ServerCert.GeneratedCert = o.Serving
	if err := serving.ApplyTo(&config.SecureServing, &config.LoopbackClientConfig); err != nil {
		return nil, err
	}
	front, err := authenticate(config, o)
	if err != nil {
		return nil, err
	}
	plain := rest.CopyConfig(o.Config)
	plain.QPS = -1                  // the API server's own priority and fairness decides
	plain.DisableCompression = true // it costs both more than the way between them
	client, err := kubernetes.NewForConfig(plain)
	if err != nil {
		return nil, err
	}
	if err := passesOn(ctx, client); err != nil {
		o.Log.Warn("not ready", "error", err) // until the API server is started again
	}
	asked := &reviews{client: client.AuthorizationV1().SubjectAccessReviews(), now: time.Now, answers: cache.NewLRUExpireCache(reviewsKept)}
	who, err := asked.authorizer()
	if err != nil {
		return nil, err
	}
	config.Authorization.Authorizer = letThrough(who)
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTransform(withoutManagedFields))
	config.SharedInformerFactory = factory
	server, err := config.Complete().New("roster-apiserver", genericapiserver.NewEmptyDelegate())
	if err != nil {
		return nil, err
	}
	clusters, lists, err := registry.Clients(plain)
	if err != nil {
		return nil, err
	}
	roles := rights.NewWatched(factory)
	may := rights.New(rights.Options{Authorizer: who, Roles: roles, Settle: rolesSettle})
	err = errors.Join(
		roles.Notify(func(sight bool) {
			asked.RolesChanged() // before a watch asks again
			may.RolesChanged(sight)
		}),
		server.AddReadyzChecks(append(o.Checks, front, rolesKnown{roles})...),
		registry.New(registry.Options{Clusters: clusters, Lists: lists, Behind: o.Config.Host, Rights: may}).Install(server, kinds),
	)
	return server, err
}

// authenticate has the server believe who callers are that the API server passes on, and ask it about others.
func authenticate(config *genericapiserver.RecommendedConfig, o Options) (frontKnown, error) {
	authentication := genericoptions.NewDelegatingAuthenticationOptions()
	authentication.RemoteKubeConfigFile = o.Kubeconfig
	if errs := authentication.Validate(); len(errs) > 0 {
		return frontKnown{}, utilerrors.NewAggregate(errs)
	}
	if err := authentication.ApplyTo(&config.Authentication, config.SecureServing, config.OpenAPIConfig); err != nil {
		return frontKnown{}, fmt.Errorf("ask the API server how it passes callers on: %w", err)
	}
	tellPassedOn(&config.Authentication)
	return frontKnown{config.Authentication.RequestHeaderConfig}, nil
}

// describe has the server publish what its kinds look like.
func describe(config *genericapiserver.RecommendedConfig, kinds *runtime.Scheme) {
	names := openapinamer.NewDefinitionNamer(kinds)
	config.OpenAPIConfig = genericapiserver.DefaultOpenAPIConfig(openapi.GetOpenAPIDefinitions, names)
	config.OpenAPIConfig.Info.Title = "Cluster registry"
	config.OpenAPIV3Config = genericapiserver.DefaultOpenAPIV3Config(openapi.GetOpenAPIDefinitions, names)
	config.OpenAPIV3Config.Info.Title = config.OpenAPIConfig.Info.Title
}

// withoutManagedFields keeps of roles what their rights are.
func withoutManagedFields(obj any) (any, error) {
	if object, err := meta.Accessor(obj); err == nil {
		object.SetManagedFields(nil)
	}
	return obj, nil
}
