// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

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
	peers    int                // that the last look of own counted; no other goroutine uses it
	debounce debouncer
	budget   *budget.Budget[string]
}

// NewWriter returns a writer that does nothing before Run.
func NewWriter(o Options) *Writer {
	w := &Writer{o: o}
	w.clusters = loop.New("cluster status", o.Log, w.write)
	w.own = loop.New("status of this cluster", o.Log, w.writeOwn)
	w.budget = budget.New(o.Quota, w.clusters.AddAfter)
	return w
}

// Run writes until ctx ends.
func (w *Writer) Run(ctx context.Context) error {
	var tasks errgroup.Group
	tasks.Go(func() error { return w.clusters.Run(ctx, 2) })
	tasks.Go(func() error { return w.own.Run(ctx, 1) })
	return tasks.Wait()
}

// Enqueue brings the status of a cluster up to date.
func (w *Writer) Enqueue(clusterID string) {
	if clusterID == w.o.ClusterID {
		w.own.Add(clusterID)
		return
	}
	w.clusters.Add(clusterID)
}

func (w *Writer) addAfter(clusterID string, d time.Duration) {
	if clusterID == w.o.ClusterID {
		w.own.AddAfter(clusterID, d)
		return
	}
	w.clusters.AddAfter(clusterID, d)
}

// restOfEach is how long the loop of this cluster rests after a look, for each peer: a look counts all peers, and each change of a peer asks
// for one.
const restOfEach = time.Millisecond / 10

// writeOwn is write for this cluster.
func (w *Writer) writeOwn(ctx context.Context, id string) error {
	w.peers = 0
	err := w.write(ctx, id)
	loop.Sleep(ctx, time.Duration(w.peers)*restOfEach)
	return err
}

// write brings the status of the Cluster objects with a clusterID up to date. It writes only a change, and sends an
// event if that is of interest.
func (w *Writer) write(ctx context.Context, id string) error {
	if id == "" {
		return nil
	}
	objects := w.o.Registry.ByID(id)
	w.debounce.keep(id, objects)
	if len(objects) > 0 && w.budget.StillWaits(id, id) {
		return loop.ErrWaits
	}
	for _, have := range objects {
		if err := w.writeOne(ctx, id, have); err != nil {
			return err
		}
	}
	w.budget.Settle(id)
	return nil
}

// writeOne brings the status of one of them up to date, or has it done later.
func (w *Writer) writeOne(ctx context.Context, id string, have *v1alpha1.Cluster) error {
	v := w.o.View(id, have)
	if v.Local {
		w.peers = v.Peers
	}
	want, after := Of(v, have.Status, have.Generation)
	if after > 0 {
		w.addAfter(id, after)
	}
	if equality.Semantic.DeepEqual(have.Status, want) {
		w.debounce.forget(id, have.Name)
		return nil
	}
	if !Synced(want) || Synced(have.Status) {
		if wait := w.debounce.wait(id, have.Name, v.lasting(), v.Now); wait > 0 {
			w.addAfter(id, wait)
			return nil
		}
	}
	other := have.DeepCopy()
	other.Status.AdmittedBy = want.AdmittedBy
	admission := equality.Semantic.DeepEqual(other.Status, want) // and nothing else
	if wait := w.debounce.admission(id, have.Name, v.Now); admission && wait > 0 {
		w.addAfter(id, wait)
		return nil
	}
	update := have.DeepCopy()
	update.Status = want
	err := w.charged(id, v.Local, update, func() error {
		_, err := w.o.Client.Clusters().ChangeStatus(ctx, have, update)
		return err
	})
	switch {
	case errors.Is(err, loop.ErrWaits):
		return err
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return nil // the watch delivers the newer object, which enqueues it again
	case err != nil:
		return fmt.Errorf("write status of cluster %s: %w", have.Name, err)
	}
	if w.debounce.written(id, have.Name, v.Now); admission {
		w.debounce.admissionWritten(id, have.Name, v.Now)
	}
	w.sendEvent(have, want.Conditions)
	return nil
}

// charged writes a status and charges the cluster with it. Each version of a status is one of the whole object in etcd, and another cluster
// decides on what is in both.
func (w *Writer) charged(id string, local bool, update *v1alpha1.Cluster, write func() error) error {
	if local {
		return write()
	}
	return w.budget.Write(id, id, func() int { return budget.SizeOf(update) }, write)
}
