// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
)

const (
	crdPath = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	// A CRD may be 1 MiB, and only its name is read.
	metadataOnly     = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
	metadataListOnly = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
	// crdRetry is how often the watch of CRDs is retried where it is forbidden, and how often discovery is
	// asked for a kind during that watch: an aggregated API has no CRD.
	crdRetry = 5 * time.Minute
	// coreRetry is how often discovery is asked for a kind of the core group: it comes with another version of the API
	// server alone.
	coreRetry = time.Hour
)

// Namespaced says whether a kind is namespaced. It asks the API server once for each kind.
func (c *Client) Namespaced(ctx context.Context, gvk schema.GroupVersionKind) (bool, error) {
	res, err := c.kinds.find(ctx, gvk)
	return res.namespaced, err
}

// awaitKind returns when a kind that was not served is served, or when discovery fails. It watches CRDs meanwhile,
// where that is allowed, and then returns as soon as the kind is served. Otherwise it asks with back-off.
func (c *Client) awaitKind(ctx context.Context, gvk schema.GroupVersionKind) {
	if gvk.Group == "" {
		pause(ctx, coreRetry)
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	changed, done := make(chan struct{}, 1), make(chan struct{})
	var watching atomic.Bool
	go func() {
		defer close(done)
		c.watchCRDs(ctx, gvk.Group, changed, &watching)
	}()
	defer func() {
		cancel()
		<-done
	}()
	for wait := backoffBase; ; {
		if _, err := c.kinds.find(ctx, gvk); ctx.Err() != nil || !errors.Is(err, ErrKindUnknown) {
			return
		}
		timer := time.NewTimer(jittered(wait))
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-changed:
			wait = backoffBase / 4
			pause(ctx, wait) // discovery follows a CRD with a delay; this also bounds the requests when CRDs change often
		}
		timer.Stop()
		limit := backoffCapRefused
		if watching.Load() {
			limit = crdRetry
		}
		wait = min(2*wait, limit)
	}
}

// pause waits, or returns when ctx ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// watchCRDs sends to changed when a CRD of the group was created or changed, and when the watch begins, until ctx ends.
// watching is true during the watch.
func (c *Client) watchCRDs(ctx context.Context, group string, changed chan<- struct{}, watching *atomic.Bool) {
	if !strings.Contains(group, ".") {
		return // the group of a CRD is a domain
	}
	notify := func() {
		select {
		case changed <- struct{}{}:
		default:
		}
	}
	for ctx.Err() == nil {
		w, err := c.openCRDWatch(ctx)
		if err == nil {
			watching.Store(true)
			notify()
			for event := range w.ResultChan() {
				crd, ok := event.Object.(*unstructured.Unstructured)
				if ok && (event.Type == watch.Added || event.Type == watch.Modified) && strings.HasSuffix(crd.GetName(), "."+group) {
					notify()
				}
			}
			w.Stop()
			watching.Store(false)
		}
		retry := backoffCap
		if err != nil {
			retry = crdRetry
		}
		pause(ctx, jittered(retry))
	}
}

// openCRDWatch opens a watch of the metadata of CRDs, from now on.
func (c *Client) openCRDWatch(ctx context.Context) (watch.Interface, error) {
	request := func(accept string) *rest.Request {
		return c.requests.Get().AbsPath(crdPath).SetHeader("Accept", accept)
	}
	var list metav1.PartialObjectMetadataList
	if err := decodeResponse(request(metadataListOnly).Param("limit", "1").Timeout(requestTimeout).Do(ctx), &list); err != nil {
		return nil, classify(err)
	}
	w, err := request(metadataOnly).Param("watch", "true").Param("resourceVersion", list.ResourceVersion).Watch(ctx)
	return w, classify(err)
}
