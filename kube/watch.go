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
	// Keep chooses, of the objects that match the selectors, those that the sink gets; nil keeps all.
	// Others are dropped as they are decoded. Keep must be a pure function of the object: it is called
	// from several goroutines, and must return the same for as long as the Watch lasts. It must not
	// change or retain the object.
	Keep func(*unstructured.Unstructured) bool

	// trim removes from an object what is not needed, before anything else gets it.
	trim func(*unstructured.Unstructured)
}

// A Sink receives the objects of a Watch. All its methods are called from the goroutine that called
// Watch, which waits for them. The objects belong to the sink from then on; they have no
// managedFields.
type Sink interface {
	// Replace receives all objects that match, a complete list at one resourceVersion. An object of
	// earlier calls that is not in it was deleted, though no event was seen. One that the sink got
	// before, that still exists and that Keep refuses now is in the list too, this once: so the sink
	// can tell "does not match any more" from "deleted".
	Replace(objs []*unstructured.Unstructured, resourceVersion string)
	// Upsert receives an object that was created or changed. Where Keep refuses it, the sink got it
	// before and it does not match any more; the sink gets nothing more of it until it matches again.
	Upsert(obj *unstructured.Unstructured)
	// Delete reports that an object was deleted. last is its last state; of a Secret or a ConfigMap
	// only the metadata.
	Delete(namespace, name string, last *unstructured.Unstructured)
	// Health reports nil when the sink has a complete list and the watch that continues it is open.
	// Otherwise it reports why not: the objects may be out of date, and do not change until the next
	// nil. It is called when that changes.
	Health(err error)
}

const (
	// backoffBase and the caps bound the jittered exponential back-off between attempts: short where
	// the API server cannot be reached, and long where a person has to fix something.
	backoffBase       = 200 * time.Millisecond
	backoffCap        = 4 * time.Second
	backoffCapRefused = 30 * time.Second
	backoffJitter     = 0.25
	startupTime       = time.Minute
	// resumeGrace is how long a resumed watch must be open before it counts as healthy. A watch cache
	// that does not have the resourceVersion any more reports that right after the header.
	resumeGrace = 250 * time.Millisecond
	// pageSize is small because a whole page is in memory, where the API server does not stream lists (WatchList).
	pageSize = 150
)

// Watch hands the objects of a kind to the sink, first all and then every change, and blocks until ctx
// ends; it then returns ctx.Err(). After an outage the watch resumes where it was, or lists again, with
// back-off; Sink.Health reports the outage. The API server streams the first list (WatchList) where it
// can, and only what Keep accepts is held in memory.
//
// With Positions that do not trust the API server, one that was restored from a backup is reported as
// ErrRestored, and the sink gets nothing of it until the restore is confirmed.
//
// A kind that is not served, also one that goes away later, is reported as ErrKindUnknown, and watched
// as soon as its CRD exists; with a longer back-off where CRDs may not be watched.
func (c *Client) Watch(ctx context.Context, o WatchOptions, s Sink) error {
	if o.GVK.Kind == "" || o.GVK.Version == "" {
		return fmt.Errorf("watch %q: version and kind are needed", o.GVK.String())
	}
	// What client-go would log here is reported to Health.
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
			err = ErrRelisting // the watch cannot be resumed, as when its resourceVersion has expired
		}
		if f.setUnhealthy(err) {
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
	defer c.Positions.OnRestore(end)()
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
		f.reflector = nil // discovery is asked again, and a new reflector made even for the same resource
		return &fault{ErrKindUnknown, describeKind(o.GVK), nil}
	}
	if err != nil && isKindNotServed(err) {
		return &fault{ErrKindUnknown, describeKind(o.GVK), err}
	}
	if known, ok := errors.AsType[*fault](err); ok {
		return known // without what the reflector adds to the message
	}
	return classify(err)
}

// capFor returns the longest back-off for an error. It is short for some time after an outage: an API
// server that starts forbids for a moment what it allows later, and does not serve all kinds yet.
func capFor(err error, sinceDown time.Duration) time.Duration {
	if sinceDown < startupTime {
		return backoffCap
	}
	if errors.Is(err, ErrKindUnknown) || errors.Is(err, ErrForbidden) || errors.Is(err, ErrUnauthorized) {
		return backoffCapRefused
	}
	return backoffCap
}

// backoff is the wait between attempts. The zero value is ready to use, and does not wait at first: no
// time is lost when a resourceVersion has expired.
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
