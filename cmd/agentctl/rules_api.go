// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"

	"github.com/roster-mesh/roster/kube"
	"github.com/roster-mesh/roster/syncrules"
)

const (
	// pageSize and maxListed bound what is read of one kind in one cluster.
	pageSize  = 250
	maxListed = 5000
)

// api reads the objects of one cluster. It remembers which kinds are served.
type api struct {
	side     *side
	disc     discovery.CachedDiscoveryInterface
	mayWrite bool // the credential is the user's own, so a dry run may be allowed

	mu    sync.Mutex
	kinds map[schema.GroupVersionKind]served
}

// served is where a kind is.
type served struct {
	schema.GroupVersionResource
	namespaced bool
}

func newAPI(s *side, mayWrite bool) (*api, error) {
	disc, err := discovery.NewDiscoveryClientForConfig(s.config)
	if err != nil {
		return nil, err
	}
	return &api{side: s, disc: memory.NewMemCacheClient(disc), mayWrite: mayWrite, kinds: map[schema.GroupVersionKind]served{}}, nil
}

// find says where a kind is served; kube.ErrKindUnknown where it is not.
func (a *api) find(gvk schema.GroupVersionKind) (served, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if s, ok := a.kinds[gvk]; ok {
		return s, nil
	}
	list, err := a.disc.ServerResourcesForGroupVersion(gvk.GroupVersion().String())
	if apierrors.IsNotFound(err) || errors.Is(err, memory.ErrCacheNotFound) {
		return served{}, fmt.Errorf("%w: %s in %s", kube.ErrKindUnknown, gvk.Kind, gvk.GroupVersion())
	}
	if err != nil {
		return served{}, err
	}
	for _, r := range list.APIResources {
		if r.Kind == gvk.Kind && !strings.Contains(r.Name, "/") {
			s := served{gvk.GroupVersion().WithResource(r.Name), r.Namespaced}
			a.kinds[gvk] = s
			return s, nil
		}
	}
	return served{}, fmt.Errorf("%w: %s in %s", kube.ErrKindUnknown, gvk.Kind, gvk.GroupVersion())
}

// namespaced is find for syncrules.Input.
func (a *api) namespaced(gvk schema.GroupVersionKind) (bool, error) {
	s, err := a.find(gvk)
	return s.namespaced, err
}

// parseKind reads a kind as kubectl does: secret, secrets, Secret, cm, deployments.apps, deployments.v1.apps.
func (a *api) parseKind(arg string) (schema.GroupVersionKind, error) {
	var warnings []string
	mapper := restmapper.NewShortcutExpander(restmapper.NewDeferredDiscoveryRESTMapper(a.disc), a.disc, func(w string) { warnings = append(warnings, w) })
	gvr, gr := schema.ParseResourceArg(strings.ToLower(arg))
	if gvr != nil {
		if gvk, err := mapper.KindFor(*gvr); err == nil {
			return gvk, nil
		}
	}
	gvk, err := mapper.KindFor(gr.WithVersion(""))
	if err == nil {
		return gvk, nil
	}
	if ambiguous, ok := errors.AsType[*meta.AmbiguousResourceError](err); ok {
		return gvk, fmt.Errorf("%q is ambiguous, it may be any of %v: name it with its group", arg, ambiguous.MatchingKinds)
	}
	if meta.IsNoMatchError(err) {
		return gvk, fmt.Errorf("context %s has no kind %q; `kubectl api-resources` lists what there is", a.side.Context, arg)
	}
	return gvk, a.side.errorf("find out what kind %q is: %w", arg, err)
}

func (a *api) objects(gvk schema.GroupVersionKind, namespace string) (dynamic.ResourceInterface, error) {
	s, err := a.find(gvk)
	if err != nil {
		return nil, err
	}
	if s.namespaced {
		return a.side.client.Resource(s.GroupVersionResource).Namespace(namespace), nil
	}
	return a.side.client.Resource(s.GroupVersionResource), nil
}

// get reads an object; nil when it is not there.
func (a *api) get(ctx context.Context, at syncrules.Place) (*unstructured.Unstructured, error) {
	objects, err := a.objects(at.GroupVersionKind, at.Namespace)
	if err != nil {
		return nil, err
	}
	obj, err := objects.Get(ctx, at.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return obj, err
}

// list reads the objects of a scope; whole is false when there are more than are read.
func (a *api) list(ctx context.Context, gvk schema.GroupVersionKind, scope syncrules.Scope) (out []*unstructured.Unstructured, whole bool, err error) {
	objects, err := a.objects(gvk, scope.Namespace)
	if err != nil {
		return nil, false, err
	}
	options := metav1.ListOptions{Limit: pageSize, LabelSelector: scope.LabelSelector, FieldSelector: scope.FieldSelector}
	for {
		page, err := objects.List(ctx, options)
		if err != nil {
			return nil, false, err
		}
		for i := range page.Items {
			item := &page.Items[i]
			item.SetGroupVersionKind(gvk) // what a list holds does not always say what it is
			out = append(out, item)
		}
		switch options.Continue = page.GetContinue(); {
		case options.Continue == "":
			return out, true, nil
		case len(out) >= maxListed:
			return out, false, nil
		}
	}
}

// maxReader fails, rather than ends, when there is more than may be read.
type maxReader struct {
	from io.Reader
	left int64
}

func (r *maxReader) Read(p []byte) (int, error) {
	if r.left <= 0 {
		return 0, fmt.Errorf("the answer is larger than %d MiB", maxAnswer>>20)
	}
	n, err := r.from.Read(p[:min(int64(len(p)), r.left)])
	r.left -= int64(n)
	return n, err
}

// closer ends the request with its body.
type closer struct {
	body   io.Closer
	cancel context.CancelFunc
}

func (c *closer) Close() error {
	defer c.cancel()
	return c.body.Close()
}

var _ http.RoundTripper = boundedTransport{}

func decodeBase64(text string) ([]byte, error) { return base64.StdEncoding.DecodeString(text) }
