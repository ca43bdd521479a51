// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package standalone

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/initializer"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
)

const (
	// kindsWithin bounds how long a start waits for the CRDs to be served before it takes a kind for one that is not there.
	kindsWithin = 30 * time.Second
	// kindsPoll is how often it looks.
	kindsPoll = 20 * time.Millisecond
	// askWithin is enough for an answer of this process to itself.
	askWithin = 10 * time.Second
)

// kinds finds the kinds that the params of admission policies are of. What upstream brings for it looks at all kinds once
// in half a minute, for the first time before the CRDs of a server that starts are served: until then a policy with such a
// param is not evaluated, and one that says Ignore lets everything pass. This one asks for the kind when it is needed, and waits
// for the CRDs while the server starts: policies that are not yet known let nothing pass.
type kinds struct {
	meta.RESTMapper // answers nothing: policies ask for one version of a kind

	client rest.Interface
	served atomic.Bool // the CRDs that the server had before it started
}

// newKinds returns kinds for a client of the server itself.
func newKinds(loopback *rest.Config) (*kinds, error) {
	client, err := discovery.NewDiscoveryClientForConfig(loopback)
	if err != nil {
		return nil, err
	}
	return &kinds{RESTMapper: meta.MultiRESTMapper{}, client: client.RESTClient()}, nil
}

// Initialize implements admission.PluginInitializer.
func (k *kinds) Initialize(plugin admission.Interface) {
	if wants, ok := plugin.(initializer.WantsRESTMapper); ok {
		wants.SetRESTMapper(k)
	}
}

// RESTMapping implements meta.RESTMapper.
func (k *kinds) RESTMapping(gk schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	if len(versions) != 1 {
		return k.RESTMapper.RESTMapping(gk, versions...)
	}
	ctx := context.Background() //nolint:forbidigo // a RESTMapper gets none
	if err := k.awaitCRDs(ctx); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	version := schema.GroupVersion{Group: gk.Group, Version: versions[0]}
	path := "/apis/" + version.String()
	if gk.Group == "" {
		path = "/api/" + version.Version
	}
	var list metav1.APIResourceList
	err := k.client.Get().AbsPath(path).MaxRetries(0).Do(ctx).Into(&list)
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, err
	}
	for _, resource := range list.APIResources {
		if resource.Kind != gk.Kind || strings.Contains(resource.Name, "/") { // a subresource
			continue
		}
		scope := meta.RESTScopeRoot
		if resource.Namespaced {
			scope = meta.RESTScopeNamespace
		}
		return &meta.RESTMapping{Resource: version.WithResource(resource.Name), GroupVersionKind: version.WithKind(gk.Kind), Scope: scope}, nil
	}
	return nil, &meta.NoKindMatchError{GroupKind: gk, SearchedVersions: versions}
}

// awaitCRDs returns when the CRDs that the server had before it started are served.
func (k *kinds) awaitCRDs(ctx context.Context) error {
	if k.served.Load() {
		return nil
	}
	for _, hook := range []string{"crd-informer-synced", "start-apiextensions-controllers"} {
		path := "/readyz/poststarthook/" + hook
		err := wait.PollUntilContextTimeout(ctx, kindsPoll, kindsWithin, true, func(ctx context.Context) (bool, error) {
			status := 0
			k.client.Get().AbsPath(path).MaxRetries(0).Do(ctx).StatusCode(&status)
			return status == http.StatusOK, nil
		})
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	k.served.Store(true)
	return nil
}
