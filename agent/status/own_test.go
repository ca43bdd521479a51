// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/roster-mesh/roster/agent/agenttest"
	"github.com/roster-mesh/roster/agent/informers"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// After a look at the status of this cluster its loop rests the longer the more peers there are, unless it ends; for objects that are not there
// it does not.
func TestRestOfTheOwnStatus(t *testing.T) {
	t.Parallel()
	_, client := agenttest.NewAPIServer(t)
	log := slog.New(slog.DiscardHandler)
	registry, peers := informers.New(client, "n", log), 0
	w := NewWriter(Options{
		ClusterID: agenttest.IDA, Client: client, Registry: registry, Log: log,
		View: func(string, *v1alpha1.Cluster) View { return View{Local: true, Peers: peers, Now: time.Now()} },
	})
	if err := registry.Put(agenttest.Cluster("own", agenttest.IDA)); err != nil {
		t.Fatal(err)
	}
	peers = 1000
	began := time.Now()
	_ = w.writeOwn(t.Context(), agenttest.IDA) // there is no such object at the API server
	if took := time.Since(began); took < 1000*restOfEach {
		t.Errorf("it rests %s for %d peers", took, peers)
	}
	peers = 1 << 40 // years
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_ = w.writeOwn(ended, agenttest.IDA)
	if w.peers != peers {
		t.Errorf("%d peers are counted", w.peers)
	}
	if _ = w.writeOwn(t.Context(), agenttest.IDB); w.peers != 0 { // or it would rest for years
		t.Errorf("%d peers are counted of what is not there", w.peers)
	}
}
