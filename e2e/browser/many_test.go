// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package browser

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/performance"
	"github.com/chromedp/chromedp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roster-mesh/roster/e2e/harness"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

const (
	manyRules = 100
	// touched is how many rules wait for a cluster that fails.
	touched = 5
	// bearable is for how long the browser may compute at a time. A machine that others keep busy, too, takes several times as long as one
	// that is idle, even by the clock of the thread.
	bearable = time.Second
)

// TestManyClusters: of 500 clusters and 100 rules, what happens to one of them keeps the browser busy at no time for so long that a
// person notices, neither in the page as it opens nor with everything in it. No agent is there: what one would write is written.
func TestManyClusters(t *testing.T) {
	fleet := controlPlanes(t, "cluster-000")
	c := &crowd{Cluster: fleet.Clusters[0]}
	if err := errors.Join(c.install(t.Context()), c.grow(t.Context(), 5)); err != nil {
		t.Fatal(err)
	}
	tab := open(t, serve(t, fleet))
	if _, err := chromedp.Call(tab.ctx, performance.Enable, performance.EnableParams{TimeDomain: performance.EnableTimeDomainThreadTicks}); err != nil {
		t.Fatal(err)
	}
	page := run(tab, chromedp.Evaluate[string]("location.href"))
	few := tab.longest(c, page)
	if err := c.grow(t.Context(), 500); err != nil {
		t.Fatal(err)
	}
	for name, address := range map[string]string{"as it opens": page, "with everything in it": page + "?all=1"} {
		many := tab.longest(c, address)
		t.Logf("500 clusters, the page %s: it computes for at most %s at a time; with 5 clusters %s", name, many, few)
		if many > bearable {
			t.Errorf("more than %s", bearable)
		}
	}
	tab.complained()
}

// longest is for how long the page computes at most at a time, while a cluster fails and comes back, again and again.
func (b *tab) longest(c *crowd, page string) time.Duration {
	b.Helper()
	b.do(chromedp.Navigate(page), chromedp.WaitVisible("#matrix"))
	var most, before time.Duration
	shows := func(what string, bad int) {
		b.Helper()
		b.eventually(what, func() error {
			now := b.computed() // it answers between two tasks
			most, before = max(most, now-before), now
			got := run(b, chromedp.Evaluate[[]int](`[document.querySelectorAll('#mesh circle').length, document.querySelectorAll('#matrix th .sign.bad').length]`))
			if got[0] != c.clusters || got[1] != bad {
				return fmt.Errorf("%d clusters in the drawing, and %d bad ones in the matrix", got[0], got[1])
			}
			return nil
		})
	}
	shows("all are fine", 0)
	most = 0 // a page that opens is waited for anyway
	for _, failed := range []int{c.clusters / 2, none, c.clusters / 3, none} {
		bad := 1
		if failed == none {
			bad = 0
		}
		written := make(chan error, 1)
		go func() { written <- c.fail(b.Context(), failed) }()
		shows(fmt.Sprintf("%d failed", bad), bad)
		if err := <-written; err != nil {
			b.Fatal(err)
		}
	}
	return most
}

// computed is for how long the page has computed since it is there: time of its thread, of which other programs take nothing.
func (b *tab) computed() time.Duration {
	b.Helper()
	all, err := chromedp.Call(b.ctx, performance.GetMetrics, cdp.Empty{})
	if err != nil {
		b.Fatal(err)
	}
	for _, m := range all.Metrics {
		if m.Name == "TaskDuration" {
			return time.Duration(m.Value * float64(time.Second)).Round(time.Millisecond)
		}
	}
	b.Fatal("Chromium does not tell for how long the page has computed")
	return 0
}

// crowd writes into an API server what the agent of the first of many clusters would.
type crowd struct {
	*harness.Cluster

	clusters, failed int
}

// none fails.
const none = -1

func (c *crowd) install(ctx context.Context) error {
	bin, err := harness.FindBinaries()
	if err != nil {
		return err
	}
	for _, args := range [][]string{
		{"apply", "--server-side", "-f", filepath.Join(bin.Chart, "crds")},
		{"wait", "--for=condition=Established", "--timeout=60s", "crd", "--all"},
	} {
		if _, err := c.Kubectl(ctx, args...); err != nil {
			return err
		}
	}
	return nil
}

// grow makes n clusters of it, all of them well.
func (c *crowd) grow(ctx context.Context, n int) error {
	from := c.clusters
	c.clusters, c.failed = n, none
	for i := from; i < n; i++ {
		if err := c.cluster(ctx, i); err != nil {
			return err
		}
	}
	return c.rules(ctx, manyRules)
}

// fail has one cluster fail, and that which failed before come back.
func (c *crowd) fail(ctx context.Context, i int) error {
	before := c.failed
	c.failed = i
	for _, changed := range []int{before, i} {
		if changed == none {
			continue
		}
		if err := c.cluster(ctx, changed); err != nil {
			return err
		}
	}
	return c.rules(ctx, touched)
}

func condition(kind, reason string, good bool) metav1.Condition {
	return metav1.Condition{
		Type: kind, Status: map[bool]metav1.ConditionStatus{true: metav1.ConditionTrue, false: metav1.ConditionFalse}[good],
		Reason: map[bool]string{true: "Synced", false: reason}[good], LastTransitionTime: metav1.Now(),
	}
}

func id(i int) types.UID { return types.UID(fmt.Sprintf("id-%03d", i)) }

func (c *crowd) cluster(ctx context.Context, i int) error {
	o := &v1alpha1.Cluster{}
	o.Name, o.Spec.ClusterID = fmt.Sprintf("cluster-%03d", i), id(i)
	o.Status.Type, o.Status.Version = v1alpha1.ClusterTypePeer, "v1.36.3"
	if i == 0 {
		o.Status.Type = v1alpha1.ClusterTypeLocal
	}
	for _, kind := range []string{v1alpha1.ConditionMember, v1alpha1.ConditionReady, v1alpha1.ConditionClustersSynced} {
		o.Status.Conditions = append(o.Status.Conditions, condition(kind, "APIUnreachable", i != c.failed))
	}
	return c.put(ctx, harness.Clusters(), "Cluster", o)
}

// rules writes the first n of them.
func (c *crowd) rules(ctx context.Context, n int) error {
	for i := range n {
		o := &v1alpha1.ResourceSyncRule{}
		o.Name, o.Spec.GVK.Version, o.Spec.GVK.Kind = fmt.Sprintf("rule-%02d", i), "v1", "Secret"
		waits := c.failed != none && i < touched
		o.Status.Conditions = []metav1.Condition{condition("Ready", "SourceUnreachable", !waits)}
		for j := 1; j < c.clusters; j++ {
			o.Status.Sources = append(o.Status.Sources, v1alpha1.SourceStatus{ClusterID: id(j), Watching: !waits || j != c.failed, Matched: 2, Synced: 2})
			o.Status.Matched, o.Status.Synced = o.Status.Matched+2, o.Status.Synced+2
		}
		if err := c.put(ctx, harness.Rules(), "ResourceSyncRule", o); err != nil {
			return err
		}
	}
	return nil
}

// put writes the status of an object, which it makes if there is none.
func (c *crowd) put(ctx context.Context, of schema.GroupVersionResource, kind string, object metav1.Object) error {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return err
	}
	status, err := json.Marshal(map[string]any{"status": content["status"]})
	if err != nil {
		return err
	}
	client := c.Dynamic.Resource(of)
	write := func() error {
		_, err := client.Patch(ctx, object.GetName(), types.MergePatchType, status, metav1.PatchOptions{}, "status")
		return err
	}
	if err = write(); apierrors.IsNotFound(err) {
		u := &unstructured.Unstructured{Object: content}
		u.SetGroupVersionKind(v1alpha1.SchemeGroupVersion.WithKind(kind))
		if _, err = client.Create(ctx, u, metav1.CreateOptions{}); err == nil {
			err = write()
		}
	}
	return err
}
