// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/cli"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/clusters"
	"github.com/roster-mesh/roster/kube"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// watchDebounce sums up changes that come together: an agent that starts writes several.
const watchDebounce = 100 * time.Millisecond

// watched are two watches and what they last said of themselves.
type watched struct {
	clusters, rules cache.Store
	changed         chan struct{} // of one place

	mu      sync.Mutex
	problem string
}

// watchStatus shows v and then every change of it, until ctx ends, and returns what it showed last. Every
// tick, if there is one, it shows the same again.
func watchStatus(ctx context.Context, c *clusters.Client, v groupView, show func(groupView) error, tick time.Duration) (groupView, error) {
	if err := show(v); err != nil {
		return v, err
	}
	w, stop, err := startWatches(ctx, c)
	if err != nil {
		return v, err
	}
	defer stop()
	var ticks <-chan time.Time
	if tick > 0 {
		ticker := time.NewTicker(tick)
		defer ticker.Stop()
		ticks = ticker.C
	}
	for {
		select {
		case <-ctx.Done():
			return v, nil
		case <-ticks:
			if err := show(v); err != nil {
				return v, err
			}
			continue
		case <-w.changed:
		}
		select {
		case <-ctx.Done():
			return v, nil
		case <-time.After(watchDebounce):
		}
		next, err := w.view(c.Context)
		if err != nil {
			return v, err
		}
		if reflect.DeepEqual(next, v) {
			continue
		}
		if v = next; show(v) != nil {
			return v, nil
		}
	}
}

// errHealthy ends a watch.
var errHealthy = errors.New("healthy")

// waitHealthy watches until the group is healthy, and says what is worst whenever that changes. late is a TimeoutError.
func waitHealthy(ctx context.Context, c *clusters.Client, v groupView, out *cli.Output, timeout time.Duration) (last groupView, late, err error) {
	until, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	progress, said := out.Progress(), ""
	v, err = watchStatus(until, c, v, func(v groupView) error {
		last = v
		if v.Health == clusters.Healthy {
			return errHealthy
		}
		if now := cli.First(v.Problems); now != said {
			progress("%s", now)
			said = now
		}
		return nil
	}, 0)
	switch {
	case last.Health == clusters.Healthy:
		return last, nil, nil
	case err != nil:
		return v, nil, err
	case ctx.Err() != nil:
		return v, nil, errors.New("interrupted")
	}
	return v, &cli.TimeoutError{Text: fmt.Sprintf("after %s the group is not healthy:", timeout), Missing: v.Problems}, nil
}

// startWatches returns when both kinds have been listed, or cannot be for now.
func startWatches(ctx context.Context, c *clusters.Client) (*watched, func(), error) {
	kube.RouteClientLogs(slog.New(slog.DiscardHandler)) // it would draw over the screen what is shown as a problem
	config := rest.CopyConfig(c.Config)
	config.Timeout = 0 // it would end the watches
	w := &watched{changed: make(chan struct{}, 1)}
	// The informers try again by themselves, and tell of some failures nobody.
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &requestMonitor{next, w.report} })
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, nil, c.Errorf("%w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	members, rules := informer(client, clusters.ClusterResource()), informer(client, clusters.RuleResource())
	w.clusters, w.rules = members.GetStore(), rules.GetStore()
	var running sync.WaitGroup
	stop := func() { cancel(); running.Wait() }
	for _, one := range []cache.SharedIndexInformer{members, rules} {
		notify := func(any) { w.notify() }
		_, err = one.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: notify, DeleteFunc: notify, UpdateFunc: func(_, _ any) { w.notify() },
		})
		if err != nil {
			stop()
			return nil, nil, c.Errorf("%w", err)
		}
		running.Go(func() { one.RunWithContext(ctx) })
	}
	cache.WaitForCacheSync(ctx.Done(), members.HasSynced, rules.HasSynced)
	return w, stop, nil
}

// informer watches the objects of a kind. The factory of client-go for such links the informers of all kinds of
// Kubernetes.
func informer(client dynamic.Interface, resource schema.GroupVersionResource) cache.SharedIndexInformer {
	objects := client.Resource(resource)
	source := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return objects.List(ctx, o) },
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return objects.Watch(ctx, o)
		},
	}
	return cache.NewSharedIndexInformer(cache.ToListWatcherWithWatchListSemantics(source, client), &unstructured.Unstructured{}, 0, cache.Indexers{})
}

// requestMonitor tells how each request fares, "" for one that succeeds.
type requestMonitor struct {
	next   http.RoundTripper
	report func(problem string)
}

func (m *requestMonitor) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := m.next.RoundTrip(r)
	switch {
	case err == nil && response.StatusCode < http.StatusBadRequest:
		m.report("")
	case err == nil:
		m.report(response.Status)
	case r.Context().Err() == nil:
		m.report(clusters.Reason(err))
	}
	return response, err
}

// report takes in how a request fared.
func (w *watched) report(problem string) {
	w.mu.Lock()
	news := w.problem != problem
	w.problem = problem
	w.mu.Unlock()
	if news {
		w.notify()
	}
}

func (w *watched) notify() {
	select {
	case w.changed <- struct{}{}:
	default: // it will be looked at anyway
	}
}

func (w *watched) view(contextName string) (groupView, error) {
	members, err := readAll[v1alpha1.Cluster](w.clusters)
	if err != nil {
		return groupView{}, err
	}
	rules, err := readAll[v1alpha1.ResourceSyncRule](w.rules)
	if err != nil {
		return groupView{}, err
	}
	v := viewOf(contextName, members, rules)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.problem != "" {
		v.Health = max(v.Health, clusters.Unknown)
		v.Problems = append(v.Problems, "the API server of context "+contextName+" cannot be watched, this may be old: "+w.problem)
	}
	return v, nil
}

// readAll are the objects of a watch, in name order.
func readAll[T any](store cache.Store) ([]*T, error) {
	all := store.List()
	objects := make([]*unstructured.Unstructured, 0, len(all))
	for _, o := range all {
		if u, ok := o.(*unstructured.Unstructured); ok {
			objects = append(objects, u)
		}
	}
	slices.SortFunc(objects, func(a, b *unstructured.Unstructured) int { return strings.Compare(a.GetName(), b.GetName()) })
	out := make([]*T, 0, len(objects))
	for _, u := range objects {
		item := new(T)
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, item); err != nil {
			return nil, fmt.Errorf("read %s %s: %w", u.GetKind(), u.GetName(), err)
		}
		out = append(out, item)
	}
	return out, nil
}

// documents prints each view as one document of a stream.
func documents(w io.Writer, format string) func(groupView) error {
	return func(v groupView) error {
		if format == "json" {
			data, err := cli.JSON(v)
			if err != nil {
				return err
			}
			_, err = w.Write(data)
			return err
		}
		data, err := cli.YAML(v)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(w, "---\n%s", data)
		return err
	}
}

// follow prints a line for everything that changed, with the time: what a log or a pipe can use.
func follow(w io.Writer) func(groupView) error {
	w = cli.Printable{To: w}
	before := map[string]string{}
	return func(v groupView) error {
		now := v.lines()
		at := time.Now().UTC().Format(time.RFC3339)
		for _, what := range slices.Sorted(maps.Keys(now)) {
			if now[what] != before[what] {
				if _, err := fmt.Fprintf(w, "%s %s: %s\n", at, what, now[what]); err != nil {
					return err
				}
			}
		}
		for _, what := range slices.Sorted(maps.Keys(before)) {
			if _, there := now[what]; !there {
				after := "gone"
				if strings.HasPrefix(what, "rule ") { // only those with problems are told
					after = "no problem any more"
				}
				if _, err := fmt.Fprintf(w, "%s %s: %s\n", at, what, after); err != nil {
					return err
				}
			}
		}
		before = now
		return nil
	}
}

// lines is a view as text for each thing in it, without what changes all the time.
func (v groupView) lines() map[string]string {
	out := map[string]string{"group": fmt.Sprintf("%s, %d clusters, %d of %d rules ready", v.Health, len(v.Members), v.Rules.Ready, v.Rules.Total)}
	for _, m := range v.Members {
		text := fmt.Sprintf("%s, synced %s", m.State, dash(m.Synced))
		if m.Message != "" {
			text += ", " + m.Message
		}
		out["cluster "+m.Name] = text
	}
	for _, r := range v.Unready {
		out["rule "+r.Name] = r.Ready.Reason + ": " + r.Ready.Message
	}
	return out
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
