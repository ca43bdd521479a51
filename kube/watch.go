// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// WatchOptions say which objects a Watch is about.
type WatchOptions struct {
	GVK schema.GroupVersionKind
	// Namespace limits the watch to one namespace; cluster-scoped kinds ignore it.
	Namespace string
	// LabelSelector and FieldSelector are applied by the API server. To the watch, an object that
	// stops matching them is deleted.
	LabelSelector, FieldSelector string
	// Keep chooses, of what the selectors let through, the objects that are handed on; nil keeps
	// all. Others are dropped as they are decoded. Keep must be a pure function of the object: it
	// is called from several goroutines, and must give the same answer for as long as the Watch
	// lasts. It must not change or keep the object.
	Keep func(*unstructured.Unstructured) bool

	// trim reduces an object before anything else sees it.
	trim func(*unstructured.Unstructured)
}

// A Sink takes what a Watch finds. All its methods are called from the goroutine that called
// Watch, and hold the watch up while they run. The objects belong to the sink from then on; they
// come without managedFields.
type Sink interface {
	// Replace states all objects that match, as a complete list of one moment, the
	// resourceVersion. An object of earlier calls that is not in it is gone, though no deletion was
	// seen. One that was handed on before, still exists and is now refused by Keep is in it too,
	// this once, so that "stopped matching" can be told from "gone".
	Replace(objs []*unstructured.Unstructured, resourceVersion string)
	// Upsert states that an object was created or changed. Where Keep refuses it, it was handed on
	// before and has stopped matching; nothing more will be heard of it until it matches again.
	Upsert(obj *unstructured.Unstructured)
	// Delete states that an object handed on before was deleted, seen live; last is its last state; of a Secret or a
	// ConfigMap the metadata alone.
	Delete(namespace, name string, last *unstructured.Unstructured)
	// Health states with nil that a complete list has been handed on and that the watch which
	// continues it stands, and else why not: what is known may be out of date and will not change
	// until the next nil. It is called when the answer changes.
	Health(err error)
}

const (
	// backoffBase and the caps bound the jittered exponential back-off between attempts: short
	// where the API server is not there, since it is missed, and long where only a person can
	// mend it.
	backoffBase       = 200 * time.Millisecond
	backoffCap        = 4 * time.Second
	backoffCapRefused = 30 * time.Second
	backoffJitter     = 0.25
	startingUp        = time.Minute
	// resumeGrace is how long a resumed watch must stand before it counts as live. A watch cache
	// that no longer holds the position says so right after the header.
	resumeGrace = 250 * time.Millisecond
	// pageSize is small because where WatchList is not served, a page is held in memory whole.
	pageSize = 150
)

// Watch states the objects of a kind to the sink, first all and then every change, and blocks
// until ctx ends; it then returns ctx.Err(). Outages are bridged: the watch resumes where it was, or
// lists again, with back-off; Health says how it stands. The API server streams the first list
// (WatchList) where it can, and no more than what Keep accepts is held in memory.
//
// Where the client was given Positions, an API server that was restored from a backup is reported as
// ErrRestored, and nothing of what it says is stated to the sink until that is confirmed.
//
// A kind that is not served, also one that goes away later, is reported as ErrKindUnknown, and
// watched as soon as its CRD is there; with a longer back-off where CRDs may not be watched.
func (c *Client) Watch(ctx context.Context, o WatchOptions, s Sink) error {
	if o.GVK.Kind == "" || o.GVK.Version == "" {
		return fmt.Errorf("watch %q: version and kind are needed", o.GVK.String())
	}
	// What client-go would log here is what Health reports.
	ctx = klog.NewContext(ctx, logr.Discard())
	f := newFeed(o, s, c.Positions)
	defer f.close()
	var pause backoff
	for ctx.Err() == nil {
		err := c.reflect(ctx, o, f)
		if ctx.Err() != nil {
			break
		}
		if err == nil {
			err = ErrRelisting // the stream ended in a way that cannot be resumed, as when expired
		}
		if f.unhealthy(err) {
			pause.reset()
		}
		switch {
		case errors.Is(err, ErrKindUnknown):
			c.kinds.forget(o.GVK)
			c.awaitKind(ctx, o.GVK)
		case errors.Is(err, ErrRestored):
			c.Positions.AwaitConfirmation(ctx, o.GVK)
		}
		pause.wait(ctx, capFor(err, time.Since(f.downAt)))
	}
	return ctx.Err()
}

// reflect lists and watches once, until a failure that needs a new list.
func (c *Client) reflect(ctx context.Context, o WatchOptions, f *feed) error {
	if c.Positions.Refuses(o.GVK) {
		return &fault{class: ErrRestored}
	}
	res, err := c.kinds.find(ctx, o.GVK)
	if err != nil {
		return err
	}
	if f.reflector == nil || f.resource != res {
		f.setResource(res)
		expected := &unstructured.Unstructured{}
		expected.SetGroupVersionKind(o.GVK)
		quiet := logr.Discard()
		at := func(namespace string) dynamic.ResourceInterface { return c.at(res, namespace) }
		l := &listWatch{objects: at(o.Namespace), at: at, options: o, feed: f}
		f.reflector = cache.NewReflectorWithOptions(
			&cache.ListWatch{ListWithContextFunc: l.list, WatchFuncWithContext: l.watch}, expected, f,
			cache.ReflectorOptions{Name: o.GVK.String(), Logger: &quiet, Backoff: &wait.Backoff{
				Duration: backoffBase, Factor: 2, Jitter: backoffJitter, Steps: 10, Cap: backoffCap,
			}})
		f.reflector.WatchListPageSize = pageSize
	}
	reading, end := context.WithCancel(ctx)
	defer end()
	f.end = end
	err = f.reflector.ListAndWatchWithContext(reading)
	refused, scopeChanged := f.refused, f.isScopeChanged()
	if f.refused = false; (refused || scopeChanged) && f.stream != nil {
		f.stream.Stop()
	}
	switch {
	case refused:
		return &fault{class: ErrRestored}
	case scopeChanged:
		f.reflector = nil // it is looked for anew, even where it seems to be the same
		return &fault{ErrKindUnknown, describeKind(o.GVK), nil}
	}
	if err != nil && isKindNotServed(err) {
		return &fault{ErrKindUnknown, describeKind(o.GVK), err}
	}
	if known, ok := errors.AsType[*fault](err); ok {
		return known // without the reflector's words
	}
	return classify(err)
}

// capFor takes also how long ago the API server was not there: one that starts forbids for a moment
// what it allows, and does not serve yet what it will.
func capFor(err error, sinceDown time.Duration) time.Duration {
	if sinceDown < startingUp {
		return backoffCap
	}
	if errors.Is(err, ErrKindUnknown) || errors.Is(err, ErrForbidden) || errors.Is(err, ErrUnauthorized) {
		return backoffCapRefused
	}
	return backoffCap
}

// backoff is the wait between attempts. The zero value is ready, and does not wait at first: a
// position that has expired costs no time.
type backoff struct{ next time.Duration }

func (b *backoff) reset() { b.next = 0 }

func (b *backoff) wait(ctx context.Context, limit time.Duration) {
	now := min(b.next, limit)
	b.next = min(max(2*b.next, backoffBase), limit)
	pause(ctx, jittered(now))
}

func jittered(d time.Duration) time.Duration {
	return d + time.Duration(rand.Float64()*backoffJitter*float64(d))
}
