// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"errors"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
)

const (
	definitionsPath = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	// A CRD may be 1 MiB, and its name is all that is asked for.
	metadataOnly     = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
	metadataListOnly = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
	// definitionsRetry is how often the right to watch CRDs is tried for, where it lacks.
	definitionsRetry = 5 * time.Minute
)

// Namespaced says whether objects of a kind are in namespaces. It asks the API server once for each kind.
func (c *Client) Namespaced(ctx context.Context, gvk schema.GroupVersionKind) (bool, error) {
	res, err := c.kinds.find(ctx, gvk)
	return res.namespaced, err
}

// awaitKind returns when a kind that was not served is, or when that cannot be told. It watches CRDs meanwhile,
// where it may: then it returns as soon as the kind is there. Else, and for kinds that come by other ways, it
// asks with back-off.
func (c *Client) awaitKind(ctx context.Context, gvk schema.GroupVersionKind) {
	ctx, cancel := context.WithCancel(ctx)
	changed, ended := make(chan struct{}, 1), make(chan struct{})
	go func() {
		defer close(ended)
		c.watchDefinitions(ctx, gvk.Group, changed)
	}()
	defer func() {
		cancel()
		<-ended
	}()
	for wait := backoffBase; ; wait = min(2*wait, backoffCapRefused) {
		if _, err := c.kinds.find(ctx, gvk); ctx.Err() != nil || !errors.Is(err, ErrKindUnknown) {
			return
		}
		timer := time.NewTimer(jittered(wait))
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-changed:
			wait = backoffBase / 2 // discovery follows a CRD with a delay
		}
		timer.Stop()
	}
}

// watchDefinitions tells when a CRD of the group was made or changed, and when it begins to look, until ctx ends.
func (c *Client) watchDefinitions(ctx context.Context, group string, changed chan<- struct{}) {
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
		w, err := c.openDefinitions(ctx)
		if err == nil {
			tell()
			for event := range w.ResultChan() {
				crd, ok := event.Object.(*unstructured.Unstructured)
				if ok && (event.Type == watch.Added || event.Type == watch.Modified) && strings.HasSuffix(crd.GetName(), "."+group) {
					tell()
				}
			}
			w.Stop()
		}
		pause := backoffCap
		if err != nil {
			pause = definitionsRetry
		}
		timer := time.NewTimer(jittered(pause))
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
		timer.Stop()
	}
}

// openDefinitions watches CRDs from now on.
func (c *Client) openDefinitions(ctx context.Context) (watch.Interface, error) {
	request := func(accept string) *rest.Request {
		return c.requests.Get().AbsPath(definitionsPath).SetHeader("Accept", accept)
	}
	var list metav1.PartialObjectMetadataList
	if err := answer(request(metadataListOnly).Param("limit", "1").Timeout(requestTimeout).Do(ctx), &list); err != nil {
		return nil, classify(err)
	}
	w, err := request(metadataOnly).Param("watch", "true").Param("resourceVersion", list.ResourceVersion).Watch(ctx)
	return w, classify(err)
}
