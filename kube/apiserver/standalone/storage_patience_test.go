// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package standalone

import (
	"context"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
)

const (
	// timeOfWatch is how long a lingering store says that a watch may go on. The watch cache sends a bookmark two seconds
	// before the end, to watches that it knows by then.
	timeOfWatch = 12 * time.Second
	// delayed is how many events RunTestDelayedWatchDelivery wants of a watch after its end.
	delayed = 10
)

// lingering is a store whose requests do not end with the time that the caller gives them, and whose watches go on until
// they have had a bookmark. Some functions of the suite give a watch three seconds in which a bookmark is to come, or
// five in which it is to begin, which a busy machine does not keep to.
type lingering struct {
	storage.Interface

	t *testing.T
	// bookmarked makes Create return when the watches that want bookmarks have had one.
	bookmarked bool

	mu      sync.Mutex
	watches []*lingeringWatch
}

// Create implements storage.Interface.
func (l *lingering) Create(ctx context.Context, key string, object, out runtime.Object, ttl uint64) error {
	err := l.Interface.Create(context.WithoutCancel(ctx), key, object, out, ttl)
	if err != nil || !l.bookmarked {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, w := range l.watches {
		select {
		case <-w.ended:
		case <-time.After(within):
			l.t.Errorf("no bookmark within %s", within)
		}
	}
	return nil
}

// Watch implements storage.Interface.
func (l *lingering) Watch(ctx context.Context, key string, o storage.ListOptions) (watch.Interface, error) {
	ctx, end := context.WithCancel(context.WithoutCancel(ctx))
	l.t.Cleanup(end)
	w, err := l.Interface.Watch(&dated{ctx, time.Now().Add(timeOfWatch)}, key, o)
	if err != nil {
		return nil, err
	}
	// More events than a function makes, so that none waits to be read.
	r := &lingeringWatch{Interface: w, events: make(chan watch.Event, 1000), ended: make(chan struct{})}
	go r.run(end)
	if o.Predicate.AllowWatchBookmarks {
		l.mu.Lock()
		l.watches = append(l.watches, r)
		l.mu.Unlock()
	}
	return r, nil
}

// dated is a context that says when it will end, and does not.
type dated struct {
	context.Context //nolint:containedctx // it is one

	at time.Time
}

// Deadline implements context.Context.
func (d *dated) Deadline() (time.Time, bool) { return d.at, true }

// lingeringWatch is a watch that ends with its first bookmark.
type lingeringWatch struct {
	watch.Interface

	events chan watch.Event
	ended  chan struct{} // is closed when all its events can be read
}

func (w *lingeringWatch) run(end func()) {
	defer close(w.ended)
	defer close(w.events)
	for e := range w.Interface.ResultChan() {
		w.events <- e
		if e.Type == watch.Bookmark {
			end()
		}
	}
}

// ResultChan implements watch.Interface.
func (w *lingeringWatch) ResultChan() <-chan watch.Event { return w.events }

// delaying is a store whose watches are stopped when events wait to be read, as many as RunTestDelayedWatchDelivery wants
// to be delivered then. It gives them a second.
type delaying struct{ storage.Interface }

// Watch implements storage.Interface.
func (d delaying) Watch(ctx context.Context, key string, o storage.ListOptions) (watch.Interface, error) {
	w, err := d.Interface.Watch(ctx, key, o)
	return delayingWatch{w}, err
}

type delayingWatch struct{ watch.Interface }

// Stop implements watch.Interface.
func (w delayingWatch) Stop() {
	full := func(context.Context) (bool, error) { return len(w.ResultChan()) >= delayed, nil }
	// Stop has no context. If the events do not come, the function says so.
	_ = wait.PollUntilContextTimeout(context.Background(), time.Millisecond, within, true, full)
	w.Interface.Stop()
}
