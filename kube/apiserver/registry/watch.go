// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/watch"

	view "github.com/roster-mesh/roster/kube/api/registry/v1alpha1"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/kube/apiserver/registry/rights"
	"github.com/roster-mesh/roster/kube/registry"
)

const (
	// rightsEvery is how often a watch looks whether roles have changed, in memory, and rightsAgain how long it waits between
	// two questions about its caller while the answers may be old ones.
	rightsEvery = time.Second
	rightsAgain = 3 * time.Second
	// rightsUnwatched is how often it asks about a caller of whose rights nobody tells that they change.
	rightsUnwatched = 10 * time.Second
	// rightsUnknown is how long a watch goes on while the question has no answer, and rightsWithin bounds one question.
	rightsUnknown = 8 * time.Second
	rightsWithin  = 3 * time.Second
)

// watcher is a watch of the stored Clusters as one caller sees them. A Cluster whose group changes so that he sees it is added,
// and one that he sees no more is deleted. The watch ends with 410 when his rights change, and with 503 when it cannot be
// known any more whether they have.
type watcher struct {
	server  *Server
	scope   *rights.Scope
	asked   time.Time       // when scope was asked for
	unknown time.Time       // since when the question has no answer; zero while it has
	chosen  bool            // by the API server behind, which sends what is in the scope, and DELETED for what leaves it
	shown   map[string]bool // else, by name, what he sees because of its group

	behind watch.Interface
	out    chan watch.Event
	stop   context.CancelFunc
}

// begin starts the watch.
func (w *watcher) begin(ctx context.Context, o metav1.ListOptions) error {
	initial := o.ResourceVersion == "" || o.ResourceVersion == "0" || o.SendInitialEvents != nil && *o.SendInitialEvents
	if _, err := resourceversion.CompareResourceVersion(o.ResourceVersion, o.ResourceVersion); err != nil && !initial {
		return apierrors.NewBadRequest("resourceVersion: " + err.Error())
	}
	if !initial && !w.server.o.Rights.Since(o.ResourceVersion) {
		return apierrors.FromObject(expired()) // what he has may be what he saw before
	}
	w.choose(&o)
	if w.scope.ByGroup() && !w.chosen && !initial {
		if err := w.remember(ctx, o); err != nil {
			return err
		}
	}
	ctx, w.stop = context.WithCancel(ctx)
	behind, err := w.server.events(ctx, o)
	if err != nil {
		w.stop()
		return w.server.behind(err)
	}
	w.behind, w.out = behind, make(chan watch.Event)
	go w.run(ctx)
	return nil
}

// choose makes the API server behind send only what is in the scope, where a selector can say that.
func (w *watcher) choose(o *metav1.ListOptions) {
	names, groups := w.scope.Names.Len(), w.scope.Groups.Len()
	switch {
	case w.scope.All || w.scope.AllGroups:
	case w.scope.Empty():
		o.FieldSelector = and(o.FieldSelector, named(noName))
	case groups == 0 && names == 1:
		o.FieldSelector = and(o.FieldSelector, named(w.scope.Names.UnsortedList()[0]))
	case names == 0 && groups <= groupsNamed:
		o.LabelSelector = inGroups(o.LabelSelector, w.scope)
		w.chosen = true
	}
}

// remember asks for what was in the list that the watch goes on from. Who sees Clusters by their group gets DELETED for those of
// it that leave the group, and for no other.
func (w *watcher) remember(ctx context.Context, o metav1.ListOptions) error {
	before, err := w.server.stored(ctx, metav1.ListOptions{
		LabelSelector: inGroups(o.LabelSelector, w.scope), FieldSelector: o.FieldSelector,
		ResourceVersion: o.ResourceVersion, ResourceVersionMatch: metav1.ResourceVersionMatchExact,
	})
	if err != nil {
		return w.server.behind(err)
	}
	for i := range before.Items {
		if c := &before.Items[i]; w.scope.SeesGroup(c.Labels[rights.GroupLabel]) {
			w.shown[c.Name] = true
		}
	}
	return nil
}

// ResultChan implements watch.Interface.
func (w *watcher) ResultChan() <-chan watch.Event { return w.out }

// Stop implements watch.Interface.
func (w *watcher) Stop() { w.stop() }

// run passes events on until ctx ends, the watch behind does, or the caller's rights change.
func (w *watcher) run(ctx context.Context) {
	defer close(w.out)
	defer w.behind.Stop()
	defer w.stop()
	ticker := time.NewTicker(rightsEvery)
	defer ticker.Stop()
	for {
		select { // his rights come first, however many events wait
		case now := <-ticker.C:
			if !w.goesOn(ctx, now) {
				return
			}
		default:
		}
		select {
		case <-ctx.Done():
			return
		case now := <-ticker.C:
			if !w.goesOn(ctx, now) {
				return
			}
		case e, ok := <-w.behind.ResultChan():
			if !ok {
				return
			}
			if e, ok = w.event(e); ok && !w.send(ctx, e, ticker.C) {
				return
			}
		}
	}
}

// send hands an event over, and returns false when the watch has ended meanwhile. A caller who does not read what he is sent
// is not sent it once his rights have changed.
func (w *watcher) send(ctx context.Context, e watch.Event, look <-chan time.Time) bool {
	for {
		select {
		case w.out <- e:
			return true
		case <-ctx.Done():
			return false
		case now := <-look:
			if !w.goesOn(ctx, now) {
				return false
			}
		}
	}
}

// goesOn says whether the caller sees what he saw, and tells him when that has changed.
func (w *watcher) goesOn(ctx context.Context, now time.Time) bool {
	why := w.ends(ctx, now)
	if why == nil {
		return true
	}
	select {
	case w.out <- watch.Event{Type: watch.Error, Object: why}:
	case <-ctx.Done():
	}
	return false
}

// ends returns why the watch ends, nil if it does not.
func (w *watcher) ends(ctx context.Context, now time.Time) *metav1.Status {
	since := now.Sub(w.asked)
	again := w.server.o.Rights.Ask(ctx, w.scope) || w.scope.Unwatched && since >= rightsUnwatched
	if !again || since < rightsAgain {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, rightsWithin)
	defer cancel()
	scope, err := w.server.scope(ctx)
	switch {
	case err == nil && scope.Equal(w.scope):
		w.scope, w.asked, w.unknown = scope, now, time.Time{}
		return nil
	case err == nil:
		return expired()
	case w.unknown.IsZero():
		w.unknown = now
		return nil
	case now.Sub(w.unknown) < rightsUnknown:
		return nil
	}
	return apiStatus(err)
}

// event returns what the caller is told of an event of the watch behind, and false for nothing.
func (w *watcher) event(e watch.Event) (watch.Event, bool) {
	c, ok := e.Object.(*v1alpha1.Cluster)
	if !ok {
		return watch.Event{Type: watch.Error, Object: w.server.watchEnded(e)}, true
	}
	out := registry.FromCluster(c)
	e.Object = out
	if e.Type == watch.Bookmark || w.scope.All || w.scope.Names.Has(c.Name) {
		return e, true
	}
	if w.chosen {
		if e.Type == watch.Deleted {
			e.Object = gone(c)
		}
		return e, true
	}
	before, now := w.shown[c.Name], w.scope.SeesGroup(c.Labels[rights.GroupLabel])
	if e.Type == watch.Deleted {
		delete(w.shown, c.Name)
		return e, before
	}
	switch {
	case before && now:
		e.Type = watch.Modified
	case now:
		e.Type = watch.Added
		w.shown[c.Name] = true
	case before:
		e.Type = watch.Deleted
		delete(w.shown, c.Name)
		e.Object = gone(c)
	}
	return e, before || now
}

// gone is what somebody is told of a Cluster that he sees no more: what it has become is not for him.
func gone(c *v1alpha1.Cluster) *view.Cluster {
	return &view.Cluster{ObjectMeta: metav1.ObjectMeta{
		Name: c.Name, UID: c.UID, ResourceVersion: c.ResourceVersion, CreationTimestamp: c.CreationTimestamp,
	}}
}
