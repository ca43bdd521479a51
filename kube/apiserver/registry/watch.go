// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
)

// watcher is a watch of the stored Clusters as one caller sees them. A Cluster whose group changes so that he sees it is added,
// and one that he sees no more is deleted. The watch ends with 410 when his rights change.
type watcher struct {
	server *Server
	scope  *rights.Scope
	shown  map[string]bool // by name, what he sees because of its group

	behind watch.Interface
	out    chan watch.Event
	stop   context.CancelFunc
}

// begin starts the watch. Who sees Clusters by their group and has a list gets DELETED for those of it that leave the group,
// and for no other: so what was in that list is asked for again.
func (w *watcher) begin(ctx context.Context, o metav1.ListOptions) error {
	asked := time.Now()
	initial := o.ResourceVersion == "" || o.ResourceVersion == "0" || o.SendInitialEvents != nil && *o.SendInitialEvents
	clusters := w.server.o.Clusters.Clusters()
	if w.scope.ByGroup() && !initial {
		before, err := clusters.List(ctx, metav1.ListOptions{
			LabelSelector: o.LabelSelector, FieldSelector: o.FieldSelector,
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
	}
	behind, err := clusters.Watch(ctx, o)
	if err != nil {
		return w.server.behind(err)
	}
	ctx, w.stop = context.WithCancel(ctx)
	w.behind, w.out = behind, make(chan watch.Event)
	go w.run(ctx, asked)
	return nil
}

// ResultChan implements watch.Interface.
func (w *watcher) ResultChan() <-chan watch.Event { return w.out }

// Stop implements watch.Interface.
func (w *watcher) Stop() { w.stop() }

// run passes events on until ctx ends, the watch behind does, or the caller's rights change. They were asked for at a time.
func (w *watcher) run(ctx context.Context, asked time.Time) {
	defer close(w.out)
	defer w.behind.Stop()
	defer w.stop()
	look := time.NewTicker(rightsEvery)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case e, ok := <-w.behind.ResultChan():
			if !ok {
				return
			}
			if e, ok = w.event(e); ok && !w.send(ctx, e) {
				return
			}
		case now := <-look.C:
			if w.server.o.Rights.Settled(asked) || now.Sub(asked) < rightsAgain {
				continue
			}
			scope, err := w.server.scope(ctx)
			if err != nil {
				continue // it asks again
			}
			if asked = now; !scope.Equal(w.scope) {
				w.send(ctx, watch.Event{Type: watch.Error, Object: expired()})
				return
			}
		}
	}
}

func (w *watcher) send(ctx context.Context, e watch.Event) bool {
	select {
	case w.out <- e:
		return true
	case <-ctx.Done():
		return false
	}
}

// event returns what the caller is told of an event of the watch behind, and false for nothing.
func (w *watcher) event(e watch.Event) (watch.Event, bool) {
	c, ok := e.Object.(*v1alpha1.Cluster)
	if !ok { // a Status
		return e, true
	}
	out := registry.FromCluster(c)
	e.Object = out
	if e.Type == watch.Bookmark || w.scope.All || w.scope.Names.Has(c.Name) {
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
		e.Object = &view.Cluster{ObjectMeta: metav1.ObjectMeta{ // what it has become is not for him
			Name: c.Name, UID: c.UID, ResourceVersion: c.ResourceVersion, CreationTimestamp: c.CreationTimestamp,
		}}
	}
	return e, before || now
}
