// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/roster-mesh/roster/agent/agenttest"
	"github.com/roster-mesh/roster/agent/payload"
	"github.com/roster-mesh/roster/kube"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/replica"
	"github.com/roster-mesh/roster/syncrules/engine"
)

// A peer is forgotten when it is gone, or when neither a Cluster object here nor anything that it published tells of it.
func TestWhenAPeerIsForgotten(t *testing.T) {
	w := newWorld(t)
	offer := func(id string) (forgotten bool) {
		t.Helper()
		w.forgotten = nil
		if err := w.offerPeer(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		return slices.Contains(w.forgotten, id)
	}
	if offer(idA) {
		t.Error("this cluster forgets itself")
	}
	if !offer(idB) {
		t.Error("a cluster that nothing tells of is known")
	}
	b := agenttest.Cluster("b", idB)
	w.put(t, b)
	if offer(idB) {
		t.Error("forgotten in spite of its Cluster object")
	}
	w.published(t, agenttest.Signer(t, idB, agenttest.Key(idB)), payload.ClusterKey(idB), replica.Live, []byte("{}"))
	w.drop(t, b)
	if offer(idB) {
		t.Error("forgotten with its Cluster object, which may come back")
	}
	w.options.Directory.Gone = func(id string) bool { return id == idB }
	if w.put(t, b); !offer(idB) {
		t.Error("known though it is gone from the group")
	}
}

// The engine knows a peer by all that the parts of the agent know of it.
func TestWhatTheEngineIsToldOfAPeer(t *testing.T) {
	w, b := newWorld(t), agenttest.Signer(t, idB, agenttest.Key(idB))
	if got := w.enginePeer(idC); got.Name != idC || got.Cluster != nil || got.Source != nil {
		t.Errorf("of a cluster that nothing is known of: %+v", got)
	}
	cluster := agenttest.Cluster("b", idB)
	w.put(t, cluster)
	source := &localSource{}
	w.peers[idB] = Connection{Source: source, Message: "why", Heard: true}
	feature, err := payload.EncodeFeature(&v1alpha1.ClusterFeature{})
	if err != nil {
		t.Fatal(err)
	}
	w.published(t, b, payload.FeatureKey("good"), replica.Live, feature)
	w.published(t, b, payload.FeatureKey("bad"), replica.Live, []byte("nonsense"))
	w.published(t, b, payload.FeatureKey("gone"), replica.Live, feature)
	w.published(t, b, payload.FeatureKey("gone"), replica.Deleted, nil)
	got := w.enginePeer(idB)
	if got.Name != "b" || got.Cluster != cluster || got.Source != engine.Source(source) || got.Why != "why" {
		t.Errorf("it is told %+v", got)
	}
	if len(got.Features) != 1 || got.Features[0].Name != "good" || !slices.Equal(w.refused, []string{"bad"}) {
		t.Errorf("features %v, refused %v", got.Features, w.refused)
	}
	if got.FeaturesKnown {
		t.Error("its features are known though not all that it published is here")
	}
}

// What is told before Run is done in it.
func TestRunTellsTheEngine(t *testing.T) {
	w, forgotten := newWorld(t), make(chan string, 1)
	w.Hooks.Forget = func(id string) { forgotten <- id }
	w.PeerChanged(idA)
	w.PeerChanged(idB)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	if id := <-forgotten; id != idB {
		t.Errorf("%s is forgotten", id)
	}
	w.ClusterChanged()
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestAReviewNeedsAConnection(t *testing.T) {
	w := newWorld(t)
	if _, err := w.review(t.Context(), idB, w.options.Client.Rules().Kind(), nil, []string{"list"}); !errors.Is(err, engine.ErrUnreachable) {
		t.Errorf("of a peer without a connection: %v", err)
	}
}

func TestClassify(t *testing.T) {
	for err, want := range map[error]error{
		nil: nil, errors.New("any other"): nil, kube.ErrRestored: engine.ErrRestored, kube.ErrKindUnknown: engine.ErrKindUnknown,
		kube.ErrUnauthorized: engine.ErrForbidden, kube.ErrForbidden: engine.ErrForbidden, kube.ErrUnreachable: engine.ErrUnreachable,
	} {
		if got := classify(err); !errors.Is(got, want) {
			t.Errorf("%v is %v, want %v", err, got, want)
		}
	}
}
