// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path"
	"sync"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/roster-mesh/roster/kube"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// TestOnlyANewWordConfirms: what was on the Cluster object when the restore was noticed confirms nothing, whatever
// it is, and neither does nothing.
func TestOnlyANewWordConfirms(t *testing.T) {
	r := restore{frozen: &freeze{}}
	for i, c := range []struct {
		token       string
		first, ends bool
	}{{"old", true, false}, {"old", false, false}, {"", false, false}, {"new", false, true}, {"newer", false, false}} {
		if first, ends := r.hear(c.token); first != c.first || ends != c.ends {
			t.Errorf("%d: %q is heard first %t, ends it %t", i, c.token, first, ends)
		}
	}
	if r.isFrozen() || !r.mayReopen() || r.mayReopen() {
		t.Error("a confirmation allows one new epoch")
	}
}

// TestAFreezeIsConfirmedByTheServer: the word counts that the API server has, not one read before the restore; and
// to start again is no confirmation.
func TestAFreezeIsConfirmedByTheServer(t *testing.T) {
	api, client := objectServer(t, map[string]map[string]any{
		identitySecret: {"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": identitySecret, "namespace": "p"}, "data": map[string]any{epochKey: "MQ=="}},
		"own":          clusterWith("restored"),
	})
	s := &session{client: client, private: &private{client: client, namespace: "p"}, log: slog.New(slog.DiscardHandler), clusterID: "me"}
	s.newLoops()
	name := "own"
	s.name.Store(&name)
	s.problems.changed = func() {}
	s.freeze()
	for range 2 { // the mirror may tell of the object several times
		if ends, err := s.confirmed(t.Context()); ends || err != nil {
			t.Fatalf("confirmed by what was there: %t, %v", ends, err)
		}
		if err := s.doChore(t.Context(), choreFreeze); err != nil {
			t.Fatal(err)
		}
	}
	again, err := s.private.freeze(t.Context())
	if err != nil || again == nil || *again != (freeze{Known: true, Token: "restored"}) {
		t.Fatalf("after a start: %+v, %v", again, err)
	}
	api.set("own", clusterWith("now"))
	started := restore{frozen: again}
	own, err := client.Clusters().Read(t.Context(), "own")
	if err != nil {
		t.Fatal(err)
	}
	if _, ends := started.hear(own.Annotations[v1alpha1.AnnotationConfirmRestore]); !ends {
		t.Error("another word does not confirm after a start")
	}
	if err := s.private.recordFreeze(t.Context(), started.state()); err != nil {
		t.Fatal(err)
	}
	if again, err := s.private.freeze(t.Context()); again != nil || err != nil {
		t.Errorf("after the confirmation: %+v, %v", again, err)
	}
}

func clusterWith(confirmation string) map[string]any {
	return map[string]any{
		"apiVersion": v1alpha1.SchemeGroupVersion.String(), "kind": "Cluster",
		"metadata": map[string]any{"name": "own", "annotations": map[string]any{v1alpha1.AnnotationConfirmRestore: confirmation}},
	}
}

// objects are what an API server has, by name.
type objects struct {
	mu   sync.Mutex
	have map[string]map[string]any
}

func (o *objects) set(name string, obj map[string]any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.have[name] = obj
}

// objectServer reads and replaces single objects.
func objectServer(t *testing.T, have map[string]map[string]any) (*objects, *kube.Client) {
	t.Helper()
	o := &objects{have: have}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := path.Base(r.URL.Path)
		if r.Method == http.MethodPut {
			var obj map[string]any
			if data, err := io.ReadAll(r.Body); err != nil || json.Unmarshal(data, &obj) != nil {
				t.Error("not an object")
			}
			o.set(name, obj)
		}
		o.mu.Lock()
		defer o.mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(o.have[name]); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	client, err := kube.NewClient(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return o, client
}
