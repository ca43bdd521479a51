// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/roster-mesh/roster/agent/agenttest"
	"github.com/roster-mesh/roster/agent/payload"
	"github.com/roster-mesh/roster/kube"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/replica"
	"github.com/roster-mesh/roster/syncrules/engine"
)

// A peer is removed from the engine when it is gone, or when it has neither a Cluster object here nor anything
// published.
func TestPeerIsRemovedFromEngine(t *testing.T) {
	w := newWorld(t)
	offer := func(id string) (forgotten bool) {
		t.Helper()
		w.forgotten = nil
		if err := w.updatePeer(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		return slices.Contains(w.forgotten, id)
	}
	if offer(idA) {
		t.Error("this cluster forgets itself")
	}
	if !offer(idC) {
		t.Error("an unknown cluster is in the engine")
	}
	b := agenttest.Cluster("b", idB)
	w.options.Directory.Pinned = func(id string) bool { return id == idB }
	if offer(idB) {
		t.Error("a member is forgotten, of which nothing is known yet after a restart: its copies would become orphans")
	}
	w.options.Directory.Pinned = func(string) bool { return false }
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

// The engine gets what all parts of the agent know of a peer.
func TestEnginePeer(t *testing.T) {
	w, b := newWorld(t), agenttest.Signer(t, idB, agenttest.Key(idB))
	if got := w.enginePeer(idC); got.Name != idC || got.Cluster != nil || got.Source != nil {
		t.Errorf("of a cluster that nothing is known of: %+v", got)
	}
	cluster := agenttest.Cluster("b", idB)
	w.put(t, cluster)
	source := &localSource{}
	w.peers[idB] = Connection{Source: source, Message: "why", CaughtUp: true}
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
		t.Errorf("the engine gets %+v", got)
	}
	if len(got.Features) != 1 || got.Features[0].Name != "good" || !slices.Equal(w.refused, []string{"bad"}) {
		t.Errorf("features %v, refused %v", got.Features, w.refused)
	}
	if got.FeaturesKnown {
		t.Error("its features are known though not all that it published is here")
	}
}

// A change before Run is processed by Run.
func TestRunProcessesEarlierChanges(t *testing.T) {
	w, forgotten := newWorld(t), make(chan string, 1)
	w.Hooks.PeerRemoved = func(id string) { forgotten <- id }
	w.PeerChanged(idA)
	w.PeerChanged(idC)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	if id := <-forgotten; id != idC {
		t.Errorf("%s is forgotten", id)
	}
	w.ClusterChanged()
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestReviewNeedsConnection(t *testing.T) {
	w := newWorld(t)
	if _, err := w.review(t.Context(), idB, w.options.Client.Rules().Kind(), nil, []string{"list"}); !errors.Is(err, engine.ErrUnreachable) {
		t.Errorf("of a peer without a connection: %v", err)
	}
}

// A lack of Secrets says as whom the API server knows the agent: what grants them names who gets them.
func TestReviewOfSecretsSaysWhoLacksThem(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		answer := map[string]string{
			"/api/v1":                        `{"kind":"APIResourceList","resources":[{"name":"secrets","kind":"Secret","namespaced":true},{"name":"configmaps","kind":"ConfigMap","namespaced":true}]}`,
			"/apis/authentication.k8s.io/v1": `{"kind":"APIResourceList","resources":[{"name":"selfsubjectreviews","kind":"SelfSubjectReview"}]}`,
			"/apis/authentication.k8s.io/v1/selfsubjectreviews": `{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview","status":{"userInfo":{"username":"system:serviceaccount:a:b"}}}`,
		}[r.URL.Path]
		if answer == "" {
			answer = `{"status":{"allowed":false}}`
		}
		_, _ = io.WriteString(w, answer)
	}))
	t.Cleanup(server.Close)
	client, err := kube.NewClient(&rest.Config{Host: server.URL, QPS: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	w := newWorld(t)
	w.options.Client = client
	for kind, want := range map[string]string{"Secret": "system:serviceaccount:a:b", "ConfigMap": ""} {
		lack, err := w.review(t.Context(), "", schema.GroupVersionKind{Version: "v1", Kind: kind}, []string{"n"}, []string{"list"})
		if err != nil || len(lack.Verbs) != 1 || lack.User != want {
			t.Errorf("%s: %+v, %v", kind, lack, err)
		}
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
