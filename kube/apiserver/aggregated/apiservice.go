// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package aggregated

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"

	view "github.com/roster-mesh/roster/kube/api/registry/v1alpha1"
	"github.com/roster-mesh/roster/kube/apiserver/waiting"
)

const (
	// lookEvery is how often it is looked whether the certificate ends soon, which asks nobody.
	lookEvery = time.Hour
	// tryAgain is when something is done again that has failed.
	tryAgain = 10 * time.Second
	// writePace is the time between two writes, should somebody else write there, too.
	writePace = time.Second
)

// errNoAPIService is returned when nothing leads the API server's callers here.
var errNoAPIService = errors.New("it does not exist: the chart brings it with registry.enabled")

var apiServices = schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"} //nolint:gochecknoglobals // never changed

// APIServiceName is that of the APIService of the registry API.
func APIServiceName() string { return view.SchemeGroupVersion.Version + "." + view.GroupName }

// Ready is a check of readiness: before the API server knows the CA, it passes no requests on.
func (c *Certificate) Ready() healthz.HealthChecker {
	return healthz.NamedCheck("roster-apiservice", func(*http.Request) error {
		if !c.named.Load() {
			return fmt.Errorf("the apiservice %s does not name the CA of this server yet", c.o.APIService)
		}
		return nil
	})
}

// Keep makes the APIService name the CA, and renews the certificate before it ends, until ctx ends. It watches the APIService: when
// another replica has made another CA, or somebody took it away, that is seen there.
func (c *Certificate) Keep(ctx context.Context) {
	changed := make(chan struct{}, 1)
	notify := func() {
		select {
		case changed <- struct{}{}:
		default:
		}
	}
	informer := c.informer(notify)
	go informer.RunWithContext(ctx)
	go func() {
		cache.WaitForCacheSync(ctx.Done(), informer.HasSynced)
		notify() // also when there is none
	}()
	look := time.NewTimer(lookEvery)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-changed:
		case <-look.C:
		}
		wrote, err := c.keep(ctx, only(informer.GetStore()), time.Now())
		if ctx.Err() != nil {
			return
		}
		c.say(err)
		look.Reset(lookEvery)
		if err != nil {
			look.Reset(tryAgain)
		}
		if wrote {
			waiting.Sleep(ctx, writePace)
		}
	}
}

// keep asks for nothing while the APIService, which may be nil, is as it should be. It returns whether it wrote.
func (c *Certificate) keep(ctx context.Context, service *unstructured.Unstructured, now time.Time) (wrote bool, err error) {
	named := c.namedBy(service)
	if service != nil && !named || ends(c.current.Load(), now) {
		if err := c.renew(ctx, now); err != nil { // perhaps of a CA that another replica has made
			return false, err
		}
		named = c.namedBy(service)
	}
	switch {
	case named:
		return false, nil
	case service == nil:
		err = errNoAPIService
	default:
		err = c.name(ctx, service)
	}
	if err != nil {
		return false, fmt.Errorf("apiservice %s: %w", c.o.APIService, err)
	}
	c.named.Store(true)
	return true, nil
}

// namedBy says whether the APIService, which may be nil, names the CA of the current certificate.
func (c *Certificate) namedBy(service *unstructured.Unstructured) bool {
	named := false
	if service != nil {
		text, _, _ := unstructured.NestedString(service.Object, "spec", "caBundle")
		bundle, err := base64.StdEncoding.DecodeString(text)
		named = err == nil && bytes.Equal(bundle, c.current.Load().ca)
	}
	c.named.Store(named)
	return named
}

// name makes the APIService name the CA, if it is still as it was seen.
func (c *Certificate) name(ctx context.Context, service *unstructured.Unstructured) error {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": service.GetResourceVersion()},
		"spec":     map[string]any{"caBundle": c.current.Load().ca},
	})
	if err != nil {
		return err
	}
	_, err = c.o.Dynamic.Resource(apiServices).Patch(ctx, c.o.APIService, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: "roster-apiserver"})
	return err
}

// informer follows the APIService, and calls a function at each change.
func (c *Certificate) informer(changed func()) cache.SharedIndexInformer {
	informer := dynamicinformer.NewFilteredDynamicInformer(c.o.Dynamic, apiServices, metav1.NamespaceAll, 0, nil, func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, c.o.APIService).String()
	}).Informer()
	// Neither fails for an informer that does not run yet.
	_, _ = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { changed() }, UpdateFunc: func(any, any) { changed() }, DeleteFunc: func(any) { changed() },
	})
	_ = informer.SetWatchErrorHandlerWithContext(func(ctx context.Context, r *cache.Reflector, err error) {
		if apierrors.IsForbidden(err) {
			c.say(fmt.Errorf("apiservice %s: %w", c.o.APIService, err))
			return
		}
		cache.DefaultWatchErrorHandler(ctx, r, err)
	})
	return informer
}

// only is the object in a store that has one at most, or nil.
func only(store cache.Store) *unstructured.Unstructured {
	for _, object := range store.List() {
		if u, ok := object.(*unstructured.Unstructured); ok {
			return u
		}
	}
	return nil
}

// say logs what is wrong, once while it stays so. Who was faster at a change is nothing wrong.
func (c *Certificate) say(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	was := c.said
	if c.said = ""; err != nil {
		c.said = err.Error()
	}
	if c.said != "" && c.said != was && !apierrors.IsConflict(err) {
		c.o.Log.Error("the API server passes no requests on", "error", err)
	}
}
