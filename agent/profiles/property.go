// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package profiles

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
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
	objects     func(schema.GroupVersionKind) propertyWriter

	mu     sync.Mutex
	kind   schema.GroupVersionKind // that is served; zero for none
	listed bool
	have   *clusterProperty
}

// propertyWriter writes properties.
type propertyWriter interface {
	Apply(ctx context.Context, p *clusterProperty) (*clusterProperty, error)
	Change(ctx context.Context, was, now *clusterProperty) (*clusterProperty, error)
	Delete(ctx context.Context, name string, preconditions *metav1.Preconditions) error
}

func newProperty(p *Profiles, name, value string) *property {
	one := &property{p: p, name: name, value: value}
	one.task = loop.NewTask("cluster property "+name, p.o.Log, one.reconcile)
	one.objects = func(kind schema.GroupVersionKind) propertyWriter {
		return kube.ObjectsOf[clusterProperty](p.o.Client, kind, "clusterproperties", "")
	}
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
	to := o.objects(kind)
	ours := have != nil && have.Labels[labelManagedBy] == Manager
	var err error
	switch {
	case have == nil && o.value == "", ours && have.Spec.Value == o.value:
		return nil
	case have == nil:
		err = o.create(ctx, to)
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

// create creates the property by server-side apply, which RBAC can allow for one name. If somebody else has just made it with
// the same value, that succeeds as well: the property is then given up, and is not marked as ours.
func (o *property) create(ctx context.Context, to propertyWriter) error {
	made, err := to.Apply(ctx, &clusterProperty{ObjectMeta: metav1.ObjectMeta{Name: o.name}, Spec: propertySpec{o.value}})
	if err != nil {
		return err
	}
	if isShared(made) {
		// With the UID, it is not created if they have deleted it.
		_, err = to.Apply(ctx, &clusterProperty{ObjectMeta: metav1.ObjectMeta{Name: o.name, UID: made.UID}})
		return err
	}
	now := *made
	now.Labels = maps.Clone(made.Labels)
	if now.Labels == nil {
		now.Labels = map[string]string{}
	}
	now.Labels[labelManagedBy] = Manager
	_, err = to.Change(ctx, made, &now) // unless somebody has changed it meanwhile
	return err
}

// isShared reports whether somebody else has set the value of a property. What cannot be read is theirs.
func isShared(p *clusterProperty) bool {
	return slices.ContainsFunc(p.ManagedFields, func(entry metav1.ManagedFieldsEntry) bool {
		var set struct {
			Spec struct {
				Value json.RawMessage `json:"f:value"`
			} `json:"f:spec"`
		}
		if entry.Manager == Manager || entry.FieldsV1 == nil { // the name under which the agent writes
			return false
		}
		return json.Unmarshal(entry.FieldsV1.GetRawBytes(), &set) != nil || set.Spec.Value != nil
	})
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
