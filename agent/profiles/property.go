// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package profiles

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roster-mesh/roster/agent/loop"
	"github.com/roster-mesh/roster/kube"
)

// labelManagedBy marks a ClusterProperty of ours, which says nothing of a manager.
const labelManagedBy = "app.kubernetes.io/managed-by"

// property keeps one ClusterProperty of this cluster.
type property struct {
	p           *Profiles
	name, value string // no value: the property is not wanted
	task        *loop.Task

	mu     sync.Mutex
	kind   schema.GroupVersionKind // that is served; zero for none
	listed bool
	have   *clusterProperty
}

func newProperty(p *Profiles, name, value string) *property {
	one := &property{p: p, name: name, value: value}
	one.task = loop.NewTask("cluster property "+name, p.o.Log, one.reconcile)
	return one
}

// run keeps the property until ctx ends.
func (o *property) run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return o.task.Run(ctx) })
	group.Go(func() error {
		selected := kube.WatchOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", o.name).String()}
		return follow(ctx, o.p.o.Client, propertyKinds(), selected, o)
	})
	return group.Wait()
}

// Serve implements sink.
func (o *property) Serve(kind schema.GroupVersionKind) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.kind, o.listed, o.have = kind, false, nil
}

// Replace implements kube.Sink.
func (o *property) Replace(objs []*unstructured.Unstructured, _ string) {
	var have *unstructured.Unstructured
	for _, u := range objs {
		if u.GetName() == o.name {
			have = u
		}
	}
	o.set(have)
}

// Upsert implements kube.Sink.
func (o *property) Upsert(u *unstructured.Unstructured) { o.set(u) }

// Delete implements kube.Sink.
func (o *property) Delete(string, string, *unstructured.Unstructured) { o.set(nil) }

// Health implements kube.Sink.
func (o *property) Health(err error) {
	if errors.Is(err, kube.ErrForbidden) && o.p.said.First(o.name, err.Error()) {
		o.p.o.Log.Warn("a ClusterProperty cannot be kept; install charts/agent with publish.clusterProfiles=true", "name", o.name, "error", err)
	}
}

func (o *property) set(u *unstructured.Unstructured) {
	var have *clusterProperty
	if u != nil {
		var err error
		if have, err = kube.Decode[clusterProperty](u); err != nil { // then it is nobody's that we know
			have = &clusterProperty{ObjectMeta: metav1.ObjectMeta{Name: u.GetName(), UID: u.GetUID()}}
		}
	}
	o.mu.Lock()
	o.have, o.listed = have, true
	o.mu.Unlock()
	o.task.Trigger()
}

func (o *property) get() (*clusterProperty, schema.GroupVersionKind, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.have, o.kind, o.listed
}

// reconcile creates, updates or deletes the property.
func (o *property) reconcile(ctx context.Context) error {
	have, kind, listed := o.get()
	if !listed || have != nil && have.DeletionTimestamp != nil {
		return nil
	}
	to := kube.ObjectsOf[clusterProperty](o.p.o.Client, kind, "clusterproperties", "")
	ours := have != nil && have.Labels[labelManagedBy] == Manager
	var err error
	switch {
	case have == nil && o.value == "", ours && have.Spec.Value == o.value:
		return nil
	case have == nil:
		made := &clusterProperty{ObjectMeta: metav1.ObjectMeta{Name: o.name, Labels: map[string]string{labelManagedBy: Manager}}, Spec: propertySpec{o.value}}
		_, err = to.Apply(ctx, made)
	case !ours:
		o.reportForeign(have)
		return nil
	case o.value == "":
		err = to.Delete(ctx, o.name, &metav1.Preconditions{UID: &have.UID, ResourceVersion: &have.ResourceVersion})
	default:
		now := *have
		now.Spec.Value = o.value
		_, err = to.Change(ctx, have, &now)
	}
	switch {
	case err == nil, apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return nil // the watch delivers what is there
	case errors.Is(err, kube.ErrForbidden):
		o.Health(err)
		o.task.TriggerAfter(untilFixed)
		return nil
	}
	return fmt.Errorf("ClusterProperty %s: %w", o.name, err)
}

// reportForeign reports, once, a property of somebody else that says something else.
func (o *property) reportForeign(have *clusterProperty) {
	if o.value == "" || have.Spec.Value == o.value {
		return
	}
	for _, own := range o.p.o.Registry.ByID(o.p.o.ClusterID) {
		o.p.say(own, string(have.UID), fmt.Sprintf("ClusterProperty %s was not made by Roster and has another value than %q: it is left alone", o.name, o.value))
		return
	}
}
