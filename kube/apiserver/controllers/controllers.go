// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package controllers runs, beside an API server, those controllers of Kubernetes that its kinds need: deletion of what is
// in a namespace, garbage collection, aggregation of ClusterRoles, ServiceAccounts with their tokens, and the CA in each
// namespace. Each is upstream's, with the settings of kube-controller-manager.
package controllers

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	memcache "k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/util/keyutil"
	"k8s.io/controller-manager/pkg/informerfactory"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/controller/certificates/rootcacertpublisher"
	"k8s.io/kubernetes/pkg/controller/clusterroleaggregation"
	"k8s.io/kubernetes/pkg/controller/garbagecollector"
	"k8s.io/kubernetes/pkg/controller/namespace"
	"k8s.io/kubernetes/pkg/controller/serviceaccount"
	tokens "k8s.io/kubernetes/pkg/serviceaccount"
)

const (
	// resync is never: what a watch has told need not be told again.
	resync = 0
	// discoveryPeriod is how often the garbage collector looks for kinds that came or went.
	discoveryPeriod = 30 * time.Second
	// namespaceResync is how often a namespace that is being deleted is tried again.
	namespaceResync = 5 * time.Minute
)

// How many objects each controller works on at a time, as kube-controller-manager has them.
const (
	gcWorkers        = 20
	namespaceWorkers = 10
	roleWorkers      = 5
	tokenWorkers     = 5
)

// Options of Run. All are required.
type Options struct {
	Config     *rest.Config // of a client that may do everything
	RootCA     []byte       // PEM
	SigningKey string       // path of the key of ServiceAccount tokens
}

// loop is a controller that runs until its context ends.
type loop func(ctx context.Context)

// run holds what the controllers share.
type run struct {
	o        Options
	client   kubernetes.Interface
	metadata metadata.Interface
	shared   informers.SharedInformerFactory
	meta     metadatainformer.SharedInformerFactory
	started  chan struct{} // closed once the informers are
}

// Run runs all controllers until ctx ends.
func Run(ctx context.Context, o Options) error {
	config := rest.CopyConfig(o.Config)
	config.QPS = -1 // it is this process that answers, and it has priority and fairness
	r := &run{o: o, started: make(chan struct{})}
	var err error
	if r.client, err = kubernetes.NewForConfig(config); err != nil {
		return err
	}
	if r.metadata, err = metadata.NewForConfig(config); err != nil {
		return err
	}
	r.shared = informers.NewSharedInformerFactoryWithOptions(r.client, resync, informers.WithTransform(trim))
	r.meta = metadatainformer.NewSharedInformerFactoryWithOptions(r.metadata, resync, metadatainformer.WithTransform(trim))

	var loops []loop
	for name, build := range map[string]func(context.Context) (loop, error){
		"namespace":               r.namespaces,
		"garbage collector":       r.garbage,
		"ClusterRole aggregation": r.roles,
		"ServiceAccount":          r.accounts,
		"ServiceAccount token":    r.tokens,
		"root CA publisher":       r.rootCA,
	} {
		built, err := build(ctx)
		if err != nil {
			return fmt.Errorf("%s controller: %w", name, err)
		}
		loops = append(loops, built)
	}
	r.shared.Start(ctx.Done())
	r.meta.Start(ctx.Done())
	close(r.started)
	var running sync.WaitGroup
	for _, each := range loops {
		running.Go(func() { each(ctx) })
	}
	running.Wait()
	r.shared.Shutdown()
	r.meta.Shutdown()
	return nil
}

// trim drops what no controller looks at.
func trim(object any) (any, error) {
	if accessor, err := meta.Accessor(object); err == nil {
		accessor.SetManagedFields(nil)
	}
	return object, nil
}

func (r *run) namespaces(ctx context.Context) (loop, error) {
	discover := r.client.Discovery().ServerPreferredNamespacedResources
	known, err := discover()
	if len(known) == 0 {
		return nil, errors.Join(errors.New("no kinds can be discovered"), err)
	}
	// The controller ends the process, without a word, when it is told of no kinds, as by a server that is about to end.
	kinds := func() ([]*metav1.APIResourceList, error) {
		now, err := discover()
		if len(now) == 0 {
			return known, err
		}
		return now, err
	}
	c := namespace.NewNamespaceController(ctx, r.client, r.metadata, kinds,
		r.shared.Core().V1().Namespaces(), namespaceResync, corev1.FinalizerKubernetes)
	return func(ctx context.Context) { c.Run(ctx, namespaceWorkers) }, nil
}

func (r *run) garbage(ctx context.Context) (loop, error) {
	kinds := memcache.NewMemCacheClient(r.client.Discovery())
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(kinds)
	c, err := garbagecollector.NewGarbageCollector(ctx, r.client, r.metadata, mapper, garbagecollector.DefaultIgnoredResources(),
		informerfactory.NewInformerFactory(r.shared, r.meta), r.started)
	if err != nil {
		return nil, err
	}
	var uncached discovery.ServerResourcesInterface = r.client.Discovery()
	return func(ctx context.Context) {
		var both sync.WaitGroup
		both.Go(func() { c.Run(ctx, gcWorkers, discoveryPeriod) })
		both.Go(func() { c.Sync(ctx, uncached, discoveryPeriod) })
		both.Wait()
	}, nil
}

func (r *run) roles(context.Context) (loop, error) {
	c := clusterroleaggregation.NewClusterRoleAggregation(r.shared.Rbac().V1().ClusterRoles(), r.client.RbacV1())
	return func(ctx context.Context) { c.Run(ctx, roleWorkers) }, nil
}

func (r *run) accounts(ctx context.Context) (loop, error) {
	core := r.shared.Core().V1()
	c, err := serviceaccount.NewServiceAccountsController(klog.FromContext(ctx), core.ServiceAccounts(), core.Namespaces(), r.client,
		serviceaccount.DefaultServiceAccountsControllerOptions())
	return func(ctx context.Context) { c.Run(ctx, 1) }, err
}

func (r *run) tokens(ctx context.Context) (loop, error) {
	key, err := keyutil.PrivateKeyFromFile(r.o.SigningKey)
	if err != nil {
		return nil, err
	}
	generator, err := tokens.JWTTokenGenerator(tokens.LegacyIssuer, key)
	if err != nil {
		return nil, err
	}
	core := r.shared.Core().V1()
	c, err := serviceaccount.NewTokensController(klog.FromContext(ctx), core.ServiceAccounts(), core.Secrets(), r.client,
		serviceaccount.TokensControllerOptions{TokenGenerator: generator, RootCA: r.o.RootCA})
	return func(ctx context.Context) { c.Run(ctx, tokenWorkers) }, err
}

func (r *run) rootCA(context.Context) (loop, error) {
	core := r.shared.Core().V1()
	c, err := rootcacertpublisher.NewPublisher(core.ConfigMaps(), core.Namespaces(), r.client, r.o.RootCA)
	return func(ctx context.Context) { c.Run(ctx, 1) }, err
}
