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

// listWatch is what the reflector reads from. It drops what nobody wants before the reflector,
// which collects a whole list, gets to see it, and it tells the feed how the connection is doing.
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
	// down is why the stream that came before a list could not be opened, where that holds for the
	// list as well.
	down error
	// cut says that the watch was cut since the last list, and until is when it ends by itself.
	cut   bool
	until time.Time
	// compared says that the history was, for the stream that could not be opened and that a list
	// replaces.
	compared bool
}

// list reads one page; the reflector calls it where WatchList did not work.
func (l *listWatch) list(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
	if err := l.down; err != nil {
		l.compared = false
		return nil, err
	}
	if opts.Continue == "" {
		if err := l.compareBeforeList(ctx); err != nil {
			return nil, err
		}
		l.feed.ask(false)
	}
	l.cut, l.until = false, time.Time{}
	opts.LabelSelector, opts.FieldSelector = l.options.LabelSelector, l.options.FieldSelector
	// The reflector would take a list that is up to date at some moment in the past, from the watch
	// cache. Copies are deleted because of what such a list lacks, and the cache sends it in one
	// piece: ask for the newest, in pages.
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
		if l.feed.preview(&items[i]) != dropped {
			list.Items = append(list.Items, items[i])
		}
	}
	return list, nil
}

// watch opens a stream, with the list at its beginning when opts ask for it.
func (l *listWatch) watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	l.down = nil
	opts.LabelSelector, opts.FieldSelector = l.options.LabelSelector, l.options.FieldSelector
	initial := opts.SendInitialEvents != nil && *opts.SendInitialEvents
	if initial {
		if err := l.compareBeforeList(ctx); err != nil {
			return nil, l.refusedInitial(err)
		}
		opts.ResourceVersion = "" // as with list
		l.feed.ask(true)
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
		l.feed.unhealthy(err)
		return nil, resumable(err)
	case initial:
		l.feed.stream = filterInitial(w, l.feed)
		return l.feed.stream, nil
	}
	return l.settle(ctx, w), nil
}

// refusedInitial returns an error of WatchList in the form that makes the reflector do the right
// thing: list instead, or fail. In the original form it would sleep and try again by itself, with
// nobody told, and without regard to the context.
func (l *listWatch) refusedInitial(err error) error {
	var link *connectionError
	switch {
	case errors.As(err, &link):
		l.down = err
	case apierrors.IsResourceExpired(err), apierrors.IsGone(err),
		apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge):
		return err // it starts over without a position
	}
	return fmt.Errorf("stream the list: %s", oneLine(err.Error()))
}

// resumable makes the reflector open the watch again where it was, instead of listing, when it was
// the connection that failed. "Connection refused" is the one failure that it does that for.
func resumable(err error) error {
	if _, ok := errors.AsType[*connectionError](err); ok {
		return errors.Join(err, syscall.ECONNREFUSED)
	}
	return err
}

// settle waits, after an outage or a list, until the watch has stood for a moment, and says so.
func (l *listWatch) settle(ctx context.Context, w watch.Interface) watch.Interface {
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

// relay is a watch that is read by a goroutine of its own, which ends with Stop.
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

// send says whether the event was taken.
func (r *relay) send(event watch.Event) bool {
	select {
	case r.out <- event:
		return true
	case <-r.done:
		return false
	}
}

// filterInitial passes on, of the initial events of a stream, only what is wanted, and everything after
// them, which the feed judges one by one.
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
			case event.Type == watch.Added && f.preview(obj) == dropped:
				continue
			case event.Type == watch.Modified && f.preview(obj) == dropped:
				// It may have been let through a moment ago, when it still matched.
				event.Type = watch.Deleted
			}
			if !r.send(event) {
				return
			}
		}
	}()
	return r
}

// prepend puts the first event of a watch back; there was none where ok is false.
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
