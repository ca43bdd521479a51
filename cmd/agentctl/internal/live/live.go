// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package live follows the Clusters and ResourceSyncRules of a cluster by watch. What it has seen stays when the API server
// goes away, with the reason why it may be old.
package live

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/clusters"
	"github.com/roster-mesh/roster/kube"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// View is what a cluster holds, in name order. The objects are shared and must not be changed.
type View struct {
	Clusters []*v1alpha1.Cluster
	Rules    []*v1alpha1.ResourceSyncRule
	Complete bool   // both kinds have been listed
	Problem  string // why they cannot be watched now; "" while they can
}

// Follower watches one cluster until it is stopped.
type Follower struct {
	clusters, rules cache.SharedIndexInformer
	changed         chan struct{} // of one place
	stop            context.CancelFunc
	running         sync.WaitGroup

	mu       sync.Mutex
	problems map[string]string // by the path of the request
}

// Silence keeps the client libraries from drawing over the screen what is shown as a problem. A program calls it once, before
// anything else.
func Silence() { kube.RouteClientLogs(slog.New(slog.DiscardHandler)) }

// Follow starts to watch. It waits for nothing: an API server that is away is a Problem of the View.
func Follow(ctx context.Context, c *clusters.Client) (*Follower, error) {
	config := clusters.BoundedInSize(c.Config)
	config.Timeout = 0 // it would end the watches
	f := &Follower{changed: make(chan struct{}, 1), problems: map[string]string{}}
	// The informers try again by themselves, and tell of some failures nobody.
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &requestMonitor{next, f.report} })
	requests, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, c.Errorf("%w", err)
	}
	requests.CheckRedirect = c.HTTP.CheckRedirect
	client, err := dynamic.NewForConfigAndClient(config, requests)
	if err != nil {
		return nil, c.Errorf("%w", err)
	}
	ctx, f.stop = context.WithCancel(ctx)
	f.clusters, err = f.start(ctx, client, clusters.ClusterResource(), decode[v1alpha1.Cluster])
	if err == nil {
		f.rules, err = f.start(ctx, client, clusters.RuleResource(), decode[v1alpha1.ResourceSyncRule])
	}
	if err != nil {
		f.Stop()
		return nil, c.Errorf("%w", err)
	}
	f.running.Go(func() { // a list of nothing is no event
		f.Await(ctx)
		f.notify()
	})
	return f, nil
}

// Stop ends the watches, and returns when they have ended.
func (f *Follower) Stop() { f.stop(); f.running.Wait() }

// Changed gets something to read after every change of the View; of several, once.
func (f *Follower) Changed() <-chan struct{} { return f.changed }

// Await returns when both kinds have been listed, or ctx ends.
func (f *Follower) Await(ctx context.Context) {
	cache.WaitForCacheSync(ctx.Done(), f.clusters.HasSynced, f.rules.HasSynced)
}

// start watches the objects of a kind. The factory of client-go for such links the informers of all kinds of Kubernetes.
func (f *Follower) start(ctx context.Context, client dynamic.Interface, resource schema.GroupVersionResource, decode cache.TransformFunc) (cache.SharedIndexInformer, error) {
	objects := client.Resource(resource)
	source := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return objects.List(ctx, o) },
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return objects.Watch(ctx, o)
		},
	}
	one := cache.NewSharedIndexInformer(cache.ToListWatcherWithWatchListSemantics(source, client), &unstructured.Unstructured{}, 0, cache.Indexers{})
	notify := func(any) { f.notify() }
	_, err := one.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: notify, DeleteFunc: notify, UpdateFunc: func(_, _ any) { f.notify() },
	})
	if err = errors.Join(err, one.SetTransform(decode)); err != nil {
		return nil, err
	}
	f.running.Go(func() { one.RunWithContext(ctx) })
	return one, nil
}

// decode reads an object once, when it arrives. One that cannot be read stays as it is, and View says so.
func decode[T any](o any) (any, error) {
	u, ok := o.(*unstructured.Unstructured)
	if !ok {
		return o, nil
	}
	u.SetManagedFields(nil)
	item := new(T)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, item); err != nil {
		return u, nil //nolint:nilerr // the type tells it
	}
	return item, nil
}

// requestMonitor tells how each request fares, "" for one that succeeds.
type requestMonitor struct {
	next   http.RoundTripper
	report func(path, problem string)
}

func (m *requestMonitor) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := m.next.RoundTrip(r)
	switch {
	case err == nil && response.StatusCode < http.StatusMultipleChoices:
		m.report(r.URL.Path, "")
	case err == nil:
		m.report(r.URL.Path, response.Status)
	case r.Context().Err() == nil:
		m.report(r.URL.Path, clusters.Reason(err))
	}
	return response, err
}

// report takes in how a request fared.
func (f *Follower) report(path, problem string) {
	f.mu.Lock()
	news := f.problems[path] != problem
	f.problems[path] = problem
	f.mu.Unlock()
	if news {
		f.notify()
	}
}

func (f *Follower) notify() {
	select {
	case f.changed <- struct{}{}:
	default: // it will be looked at anyway
	}
}

// View is what there is now. It is an error if an object cannot be read.
func (f *Follower) View() (View, error) {
	v := View{Complete: f.clusters.HasSynced() && f.rules.HasSynced()}
	var err error
	if v.Clusters, err = readAll[*v1alpha1.Cluster](f.clusters.GetStore()); err != nil {
		return View{}, err
	}
	if v.Rules, err = readAll[*v1alpha1.ResourceSyncRule](f.rules.GetStore()); err != nil {
		return View{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, path := range slices.Sorted(maps.Keys(f.problems)) {
		if v.Problem == "" {
			v.Problem = f.problems[path]
		}
	}
	return v, nil
}

// readAll are the objects of a watch, in name order.
func readAll[T metav1.Object](store cache.Store) ([]T, error) {
	all := store.List()
	out := make([]T, 0, len(all))
	for _, o := range all {
		item, ok := o.(T)
		if !ok {
			if u, is := o.(*unstructured.Unstructured); is {
				return nil, fmt.Errorf("read %s %s: its fields are not as this agentctl knows them", u.GetKind(), u.GetName())
			}
			continue
		}
		out = append(out, item)
	}
	slices.SortFunc(out, func(a, b T) int { return strings.Compare(a.GetName(), b.GetName()) })
	return out, nil
}
