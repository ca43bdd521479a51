// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"context"
	"fmt"
	"log/slog"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roster-mesh/roster/agent/budget"
	"github.com/roster-mesh/roster/agent/informers"
	"github.com/roster-mesh/roster/agent/loop"
	"github.com/roster-mesh/roster/kube"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/syncrules/engine/quota"
)

// Events records Kubernetes events. It does not block.
type Events interface {
	Event(kind schema.GroupVersionKind, about metav1.Object, eventType, reason, message string)
}

// Options are the options of NewWriter. All fields but Quota are required.
type Options struct {
	ClusterID string // of this cluster
	Client    *kube.Client
	Registry  *informers.Registry
	// View collects what is known of a cluster, for one of its Cluster objects.
	View   func(clusterID string, have *v1alpha1.Cluster) View
	Events Events
	Quota  quota.Limits // of what is written because of one other cluster; zero means the default limits
	Log    *slog.Logger
}

// Writer writes the status of Cluster objects. It is safe for concurrent use.
type Writer struct {
	o        Options
	clusters *loop.Loop[string] // clusterIDs whose status may have changed
	own      *loop.Loop[string] // this cluster's, which waits for no other: it says what a person has to decide
	debounce debouncer
	budget   *budget.Budget[string]
}

// NewWriter returns a writer that does nothing before Run.
func NewWriter(o Options) *Writer {
	w := &Writer{o: o}
	w.clusters = loop.New("cluster status", o.Log, w.write).Rest()
	w.own = loop.New("status of this cluster", o.Log, w.write)
	w.budget = budget.New(o.Quota, w.clusters.AddAfter)
	return w
}

// Run writes until ctx ends.
func (w *Writer) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return w.clusters.Run(ctx, 1) })
	group.Go(func() error { return w.own.Run(ctx, 1) })
	return group.Wait()
}

// Enqueue brings the status of a cluster up to date.
func (w *Writer) Enqueue(clusterID string) { w.of(clusterID).Add(clusterID) }

func (w *Writer) of(clusterID string) *loop.Loop[string] {
	if clusterID == w.o.ClusterID {
		return w.own
	}
	return w.clusters
}

// write brings the status of the Cluster objects with a clusterID up to date. It writes only a change, and sends an
// event if that is of interest.
func (w *Writer) write(ctx context.Context, id string) error {
	if id == "" {
		return nil
	}
	for _, have := range w.o.Registry.ByID(id) {
		v := w.o.View(id, have)
		want, after := Of(v, have.Status, have.Generation)
		if after > 0 {
			w.of(id).AddAfter(id, after)
		}
		if equality.Semantic.DeepEqual(have.Status, want) {
			w.debounce.forget(have.Name)
			continue
		}
		if wait := w.debounce.wait(have.Name, v.lasting() || Synced(want) && !Synced(have.Status), v.Now); wait > 0 {
			w.of(id).AddAfter(id, wait)
			continue
		}
		update := have.DeepCopy()
		update.Status = want
		// Each version of a status is one of the whole object in etcd, and another cluster decides on what is in both.
		size := budget.SizeOf(update)
		if !v.Local && !w.budget.Charge(id, id, size) {
			return nil // the budget adds it again
		}
		_, err := w.o.Client.Clusters().ChangeStatus(ctx, have, update)
		if err != nil && !v.Local {
			w.budget.Refund(id, size)
		}
		if apierrors.IsConflict(err) {
			continue // the watch delivers the newer object, which enqueues it again
		}
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("write status of cluster %s: %w", have.Name, err)
		}
		if w.debounce.forget(have.Name); err != nil {
			continue // as after a conflict
		}
		w.sendEvent(have, want.Conditions)
	}
	w.budget.Settle(id)
	return nil
}
