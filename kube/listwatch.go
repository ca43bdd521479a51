// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
)

// pageTimeout bounds one page of a list.
const pageTimeout = 2 * time.Minute

// listWatch is what the reflector reads from. It drops the objects of a list that Keep refuses before
// the reflector gets them, since that collects the whole list in memory, and it reports the state of
// the connection to the feed.
//
//	           WatchList streams            not served (422, 404 …)
//	start ───────────────────────► initial ───────────────► pages ──► watch
//	  ▲                               │ bookmark                        │ header, grace
//	  │                               ▼                                 ▼
//	  │ expired, or an error        live ◄──────────────────────────── live
//	  └───────────────────────────────┴── cut: watch again from the last position
type listWatch struct {
	objects dynamic.ResourceInterface
	// at is objects in one namespace.
	at      func(namespace string) dynamic.ResourceInterface
	options WatchOptions
	feed    *feed
	// down is the error of the connection when a stream could not be opened; the list that the reflector
	// requests instead would fail as well.
	down error
	// cut says that the watch was cut since the last list; until is when the server ends it.
	cut   bool
	until time.Time
	// compared says that the history was compared already, for a stream that could not be opened; a list
	// replaces it.
	compared bool
}

// list reads one page; the reflector calls it where the list cannot be streamed (WatchList).
func (l *listWatch) list(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
	if err := l.down; err != nil {
		l.compared = false
		return nil, err
	}
	if opts.Continue == "" {
		if err := l.compareBeforeList(ctx); err != nil {
			return nil, err
		}
		l.feed.beginList(false)
	}
	l.cut, l.until = false, time.Time{}
	opts.LabelSelector, opts.FieldSelector = l.options.LabelSelector, l.options.FieldSelector
	// The reflector asks for a list from the watch cache, which may be outdated and is not in pages.
	// Copies are deleted because of what a list lacks: so ask for the newest one, in pages.
	opts.ResourceVersion, opts.ResourceVersionMatch = "", ""
	ctx, cancel := context.WithTimeout(ctx, pageTimeout)
	defer cancel()
	list, err := l.objects.List(ctx, opts)
	if err != nil {
		return nil, err
	}
	items := list.Items
	list.Items = nil
	for i := range items {
		if l.feed.filter(&items[i]) != dropped {
			list.Items = append(list.Items, items[i])
		}
	}
	return list, nil
}

// watch opens a watch, which begins with a list when opts ask for that (WatchList).
func (l *listWatch) watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	l.down = nil
	opts.LabelSelector, opts.FieldSelector = l.options.LabelSelector, l.options.FieldSelector
	initial := opts.SendInitialEvents != nil && *opts.SendInitialEvents
	if initial {
		if err := l.compareBeforeList(ctx); err != nil {
			return nil, l.refusedInitial(err)
		}
		opts.ResourceVersion = "" // as with list
		l.feed.beginList(true)
	} else if err := l.compareBeforeResume(ctx); err != nil {
		return nil, err
	}
	w, err := l.objects.Watch(ctx, opts)
	l.cut, l.until, l.compared = err != nil, time.Time{}, err != nil && initial
	if err == nil && opts.TimeoutSeconds != nil {
		l.until = time.Now().Add(time.Duration(*opts.TimeoutSeconds)*time.Second - cutMargin)
	}
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, err
	case err != nil && initial:
		return nil, l.refusedInitial(err)
	case err != nil && isKindNotServed(err):
		return nil, err
	case err != nil:
		l.feed.setUnhealthy(err)
		return nil, resumable(err)
	case initial:
		l.feed.stream = filterInitial(w, l.feed)
		return l.feed.stream, nil
	}
	return l.awaitHealthy(ctx, w), nil
}

// refusedInitial returns an error of a streamed list in the form that makes the reflector list instead,
// or fail. With the original error the reflector would sleep and retry by itself, without a report, and
// without regard to the context.
func (l *listWatch) refusedInitial(err error) error {
	var connection *connectionError
	switch {
	case errors.As(err, &connection):
		l.down = err
	case apierrors.IsResourceExpired(err), apierrors.IsGone(err),
		apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge):
		return err // the reflector starts over without a resourceVersion
	}
	return fmt.Errorf("stream the list: %s", oneLine(err.Error()))
}

// resumable makes the reflector resume the watch, instead of listing, when the connection failed. The
// reflector does that only for "connection refused".
func resumable(err error) error {
	if _, ok := errors.AsType[*connectionError](err); ok {
		return errors.Join(err, syscall.ECONNREFUSED)
	}
	return err
}

// awaitHealthy waits, after an outage or a list, until the watch has been open for resumeGrace, and
// reports it as healthy.
func (l *listWatch) awaitHealthy(ctx context.Context, w watch.Interface) watch.Interface {
	if l.feed.healthy {
		return w
	}
	grace := time.NewTimer(resumeGrace)
	defer grace.Stop()
	select {
	case <-ctx.Done():
		return w
	case <-grace.C:
		l.feed.setHealthy()
		return w
	case first, ok := <-w.ResultChan():
		if ok && first.Type != watch.Error {
			l.feed.setHealthy()
		}
		return prepend(w, first, ok)
	}
}

// relay is a watch whose events pass through a goroutine, which ends with Stop.
type relay struct {
	watch.Interface
	out  chan watch.Event
	done chan struct{}
	once sync.Once
}

func newRelay(w watch.Interface) *relay {
	return &relay{Interface: w, out: make(chan watch.Event), done: make(chan struct{})}
}

func (r *relay) ResultChan() <-chan watch.Event { return r.out }

func (r *relay) Stop() {
	r.once.Do(func() { close(r.done) })
	r.Interface.Stop()
}

// send returns false when the watch was stopped before the event was received.
func (r *relay) send(event watch.Event) bool {
	select {
	case r.out <- event:
		return true
	case <-r.done:
		return false
	}
}

// filterInitial drops, of the initial events of a stream, the objects that Keep refuses. All later events
// are passed on; the feed judges them one by one.
func filterInitial(w watch.Interface, f *feed) watch.Interface {
	r := newRelay(w)
	go func() {
		defer close(r.out)
		initial := true
		for event := range w.ResultChan() {
			obj, isObject := event.Object.(*unstructured.Unstructured)
			switch {
			case !initial || !isObject:
			case event.Type == watch.Bookmark:
				initial = obj.GetAnnotations()[metav1.InitialEventsAnnotationKey] != "true"
			case event.Type == watch.Added && f.filter(obj) == dropped:
				continue
			case event.Type == watch.Modified && f.filter(obj) == dropped:
				// It may have matched a moment ago, and have been passed on.
				event.Type = watch.Deleted
			}
			if !r.send(event) {
				return
			}
		}
	}()
	return r
}

// prepend returns a watch with an event that was read from it put back; ok is false where it had ended.
func prepend(w watch.Interface, first watch.Event, ok bool) watch.Interface {
	r := newRelay(w)
	go func() {
		defer close(r.out)
		for ; ok; first, ok = <-w.ResultChan() {
			if !r.send(first) {
				return
			}
		}
	}()
	return r
}
