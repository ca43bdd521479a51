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
	// A CRD may be 1 MiB, and its name is all that is asked for.
	metadataOnly     = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
	metadataListOnly = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
	// crdRetry is how often the right to watch CRDs is tried for, where it lacks, and how often a kind is
	// asked for while the watch stands, since a kind may come by other ways.
	crdRetry = 5 * time.Minute
)

// Namespaced says whether objects of a kind are in namespaces. It asks the API server once for each kind.
func (c *Client) Namespaced(ctx context.Context, gvk schema.GroupVersionKind) (bool, error) {
	res, err := c.kinds.find(ctx, gvk)
	return res.namespaced, err
}

// awaitKind returns when a kind that was not served is, or when that cannot be told. It watches CRDs meanwhile,
// where it may: then it returns as soon as the kind is there. Else it asks with back-off.
func (c *Client) awaitKind(ctx context.Context, gvk schema.GroupVersionKind) {
	ctx, cancel := context.WithCancel(ctx)
	changed, ended := make(chan struct{}, 1), make(chan struct{})
	var stands atomic.Bool
	go func() {
		defer close(ended)
		c.watchCRDs(ctx, gvk.Group, changed, &stands)
	}()
	defer func() {
		cancel()
		<-ended
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
			pause(ctx, wait) // discovery follows a CRD with a delay, and however often one changes, it is asked in peace
		}
		timer.Stop()
		most := backoffCapRefused
		if stands.Load() {
			most = crdRetry
		}
		wait = min(2*wait, most)
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

// watchCRDs tells when a CRD of the group was made or changed, and when it begins to look, until ctx ends.
// stands is whether it is looking.
func (c *Client) watchCRDs(ctx context.Context, group string, changed chan<- struct{}, stands *atomic.Bool) {
	if !strings.Contains(group, ".") {
		return // the group of a CRD is a domain
	}
	tell := func() {
		select {
		case changed <- struct{}{}:
		default:
		}
	}
	for ctx.Err() == nil {
		w, err := c.openCRDWatch(ctx)
		if err == nil {
			stands.Store(true)
			tell()
			for event := range w.ResultChan() {
				crd, ok := event.Object.(*unstructured.Unstructured)
				if ok && (event.Type == watch.Added || event.Type == watch.Modified) && strings.HasSuffix(crd.GetName(), "."+group) {
					tell()
				}
			}
			w.Stop()
			stands.Store(false)
		}
		again := backoffCap
		if err != nil {
			again = crdRetry
		}
		pause(ctx, jittered(again))
	}
}

// openCRDWatch watches CRDs from now on.
func (c *Client) openCRDWatch(ctx context.Context) (watch.Interface, error) {
	request := func(accept string) *rest.Request {
		return c.requests.Get().AbsPath(crdPath).SetHeader("Accept", accept)
	}
	var list metav1.PartialObjectMetadataList
	if err := answer(request(metadataListOnly).Param("limit", "1").Timeout(requestTimeout).Do(ctx), &list); err != nil {
		return nil, classify(err)
	}
	w, err := request(metadataOnly).Param("watch", "true").Param("resourceVersion", list.ResourceVersion).Watch(ctx)
	return w, classify(err)
}
