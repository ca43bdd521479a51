// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roster-mesh/roster/agent/agenttest"
	"github.com/roster-mesh/roster/agent/pinned"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/syncrules"
)

// TestForgetGroupIsRetried: a step that failed is retried after the pins and the Cluster objects are gone.
func TestForgetGroupIsRetried(t *testing.T) {
	m := newFixture(t)
	if err := m.trust.Pin(agenttest.IDB, agenttest.PublicKey(agenttest.IDB)); err != nil {
		t.Fatal(err)
	}
	if err := m.recordPins(t.Context()); err != nil {
		t.Fatal(err)
	}
	copied := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "c", UID: "u"}, Spec: v1alpha1.ClusterSpec{ClusterID: types.UID(agenttest.IDC)}}
	copied.Labels, copied.Annotations = map[string]string{v1alpha1.LabelOwnerClusterID: agenttest.IDC}, map[string]string{v1alpha1.AnnotationOwnerClusterID: agenttest.IDC}
	if syncrules.Owner(copied) != agenttest.IDC {
		t.Fatal("not a copy")
	}
	listed := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "listed", UID: "l"}} // without a clusterID it is nobody's
	if err := m.o.Registry.Put(listed); err != nil {
		t.Fatal(err)
	}
	if err := m.o.Registry.Put(copied); err != nil {
		t.Fatal(err)
	}
	m.failing = errors.New("not now")
	if err := m.forgetGroup(t.Context()); err == nil {
		t.Fatal("it says that it worked")
	}
	if err := m.recordPins(t.Context()); err != nil {
		t.Fatal(err)
	}
	if pins, err := pinned.Read(t.Context(), m.o.Store, m.o.Log); err != nil || len(pins) != 1 {
		t.Fatalf("a restart would begin with %v: %v", pins, err)
	}
	if err := m.o.Registry.Drop(copied); err != nil {
		t.Fatal(err)
	}
	m.failing = nil
	if err := m.forgetGroup(t.Context()); err != nil {
		t.Fatal(err)
	}
	if ids, err := m.knownClusters(); err != nil || slices.Contains(ids, "") {
		t.Errorf("known clusters: %q, %v", ids, err)
	}
	got := m.ended()
	for _, want := range []string{"reissued", "revoked " + agenttest.IDB, "revoked " + agenttest.IDC, "forgotten " + agenttest.IDB} {
		if !slices.Contains(got, want) {
			t.Errorf("%s is left; deleted: %v", want, got)
		}
	}
	if pins, err := pinned.Read(t.Context(), m.o.Store, m.o.Log); err != nil || len(pins) != 0 {
		t.Errorf("%v is pinned still: %v", pins, err)
	}
	if err := m.forgetGroup(t.Context()); err != nil || len(m.ended()) > 0 {
		t.Error("it begins again:", err)
	}
}

// TestForgottenPinsAreNotRecordedAgain: pins that are being recorded while the group is forgotten are deleted from the
// record in the end.
func TestForgottenPinsAreNotRecordedAgain(t *testing.T) {
	m := newFixture(t)
	pin := func(id string) {
		if err := m.trust.Pin(id, agenttest.PublicKey(id)); err != nil {
			t.Fatal(err)
		}
	}
	pin(agenttest.IDB)
	if err := m.recordPins(t.Context()); err != nil {
		t.Fatal(err)
	}
	slow, forgotten := make(chan struct{}), make(chan error, 1)
	var puts atomic.Int32
	m.api.Put = func(name string) {
		if name != pinned.Secret || puts.Add(1) > 1 {
			return
		}
		close(slow)
		select {
		case err := <-forgotten: // meanwhile
			forgotten <- err
		case <-time.After(100 * time.Millisecond): // or it waits
		}
	}
	pin(agenttest.IDC)
	recorded := make(chan error, 1)
	go func() { recorded <- m.recordPins(t.Context()) }()
	<-slow
	go func() { forgotten <- m.forgetGroup(t.Context()) }()
	for _, done := range []chan error{recorded, forgotten} {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	if pins, err := pinned.Read(t.Context(), m.o.Store, m.o.Log); err != nil || len(pins) != 0 {
		t.Errorf("%v is pinned still: %v", pins, err)
	}
}
