// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package profiles

import (
	"context"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roster-mesh/roster/agent/agenttest"
)

// applied is an API server with one property, and what server-side apply makes of it where the value is the same; the e2e test
// shows that on a real one.
type applied struct {
	*testing.T
	one      *property
	held     *clusterProperty
	managers []string // that have set its value, beside the agent
	ours     bool     // the agent has set it
	writes   int
}

func newApplied(t *testing.T) *applied {
	a := &applied{T: t, one: newRoom(t).p.properties[0]}
	a.one.objects = func(schema.GroupVersionKind) propertyWriter { return a }
	a.one.Serve(propertyKinds()[0])
	a.one.Replace(nil, "")
	return a
}

func (a *applied) store(p *clusterProperty) (*clusterProperty, error) {
	a.writes++
	now := *p
	now.UID, now.ManagedFields = "1", nil
	names := a.managers
	if a.ours {
		names = append([]string{Manager}, names...)
	}
	for _, name := range names {
		now.ManagedFields = append(now.ManagedFields, metav1.ManagedFieldsEntry{Manager: name, FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:value":{}}}`)})
	}
	now.ManagedFields = append(now.ManagedFields, metav1.ManagedFieldsEntry{Manager: "kubectl-label", FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:labels":{"f:x":{}}}}`)})
	a.held = &now
	return &now, nil
}

func (a *applied) Apply(_ context.Context, p *clusterProperty) (*clusterProperty, error) {
	if len(p.Labels) > 0 {
		a.Error("it is marked before it is known whose it is")
	}
	if a.ours = p.Spec.Value != ""; a.ours && a.held == nil {
		return a.store(p)
	}
	if !a.ours && p.UID != a.held.UID {
		a.Error("it is given up without a UID, which may create it")
	}
	return a.store(a.held)
}

func (a *applied) Change(_ context.Context, _, now *clusterProperty) (*clusterProperty, error) {
	return a.store(now)
}

func (a *applied) Delete(context.Context, string, *metav1.Preconditions) error {
	a.writes++
	a.held = nil
	return nil
}

func (a *applied) reconcile() {
	a.Helper()
	if err := a.one.reconcile(a.Context()); err != nil {
		a.Fatal(err)
	}
}

func TestPropertyIsCreated(t *testing.T) {
	a := newApplied(t)
	a.reconcile()
	if a.held == nil || a.held.Spec.Value != agenttest.IDA || a.held.Labels[labelManagedBy] != Manager || !a.ours || a.writes != 2 {
		t.Fatalf("created %+v with %d writes", a.held, a.writes)
	}
}

// Somebody else makes the property with the same value before the watch delivers it: it stays theirs.
func TestPropertyOfSomebodyElseIsGivenUp(t *testing.T) {
	a := newApplied(t)
	a.managers = []string{"fleet"}
	a.held = &clusterProperty{ObjectMeta: metav1.ObjectMeta{Name: propertyCluster, UID: "1"}, Spec: propertySpec{agenttest.IDA}}
	a.reconcile()
	if a.ours || a.held.Labels[labelManagedBy] != "" || a.held.Spec.Value != agenttest.IDA {
		t.Fatalf("it is ours: %t, and is %+v", a.ours, a.held)
	}
}
