// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"go.uber.org/goleak"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roster-mesh/roster/agent/agenttest"
	"github.com/roster-mesh/roster/agent/directory"
	"github.com/roster-mesh/roster/agent/informers"
	"github.com/roster-mesh/roster/agent/store"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/mesh/trust"
	"github.com/roster-mesh/roster/replica"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const idA, idB, idC = agenttest.IDA, agenttest.IDB, agenttest.IDC

// world is cluster A, which trusts B, with the calls of its hooks. It does not run.
type world struct {
	*Rules
	api *agenttest.APIServer

	frozen    bool
	trust     *trust.Table
	now       time.Time
	peers     map[string]Connection
	own       *v1alpha1.Cluster
	events    []string // reason of object
	forgotten []string
	refused   []string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{now: time.Unix(1_000_000_000, 0), peers: map[string]Connection{}}
	api, client := agenttest.NewAPIServer(t)
	w.api = api
	log := slog.New(slog.DiscardHandler)
	registry := informers.New(client, "n", log)
	trust := trust.New(trust.Pin{ClusterID: idA, PublicKey: agenttest.PublicKey(idA)}, trust.Options{})
	w.trust = trust
	if err := trust.Pin(idB, agenttest.PublicKey(idB)); err != nil {
		t.Fatal(err)
	}
	held, err := replica.New(replica.Options{Self: idA, PrivateKey: agenttest.Key(idA), Epoch: 1, Keyring: trust})
	if err != nil {
		t.Fatal(err)
	}
	w.Rules, err = New(Options{
		ClusterID: idA, Namespace: "n", Client: client, Store: store.New(client, "p"), Registry: registry, Replica: held,
		Directory: &directory.Directory{Registry: registry, Replica: held, Gone: func(string) bool { return false }, Pinned: func(id string) bool { _, pinned := trust.Key(id); return pinned }, PrivateNamespace: "p"},
		Own:       func() *v1alpha1.Cluster { return w.own }, Frozen: func() bool { return w.frozen },
		Edge: trust.IsEdge, Peer: func(id string) Connection { return w.peers[id] }, Events: w, Now: func() time.Time { return w.now }, Log: log,
	})
	if err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	t.Cleanup(func() { // a queue is there before it runs
		_, _, _ = w.peerUpdates.Run(ended, 0), w.statuses.Run(ended, 0), w.ownStatuses.Run(ended, 0)
	})
	w.Hooks = Hooks{
		Refused:     func(e replica.Entry, _ error) { w.refused = append(w.refused, e.Key.Name) },
		PeerRemoved: func(id string) { w.forgotten = append(w.forgotten, id) },
	}
	return w
}

// Event implements Events.
func (w *world) Event(_ schema.GroupVersionKind, o metav1.Object, _, reason, _ string) {
	w.events = append(w.events, reason+" of "+o.GetName())
}

// put puts objects into the listers.
func (w *world) put(t *testing.T, objects ...metav1.Object) {
	t.Helper()
	if err := w.options.Registry.Put(objects...); err != nil {
		t.Fatal(err)
	}
}

// drop takes an object out of the listers.
func (w *world) drop(t *testing.T, o metav1.Object) {
	t.Helper()
	if err := w.options.Registry.Drop(o); err != nil {
		t.Fatal(err)
	}
}

// published makes the replica merge an entry of a member.
func (w *world) published(t *testing.T, by *replica.Replica, key replica.Key, status replica.Status, data []byte) {
	t.Helper()
	messages, err := by.Publish(key, status, data)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range messages {
		if _, _, err := w.options.Replica.Merge(m, ""); err != nil {
			t.Fatal(err)
		}
	}
}

func rule(name, owner, version string) *v1alpha1.ResourceSyncRule {
	r := &v1alpha1.ResourceSyncRule{ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: version}}
	if owner != "" {
		r.Labels = map[string]string{v1alpha1.LabelOwnerClusterID: owner}
		r.Annotations = map[string]string{v1alpha1.AnnotationOwnerClusterID: owner}
	}
	return r
}
