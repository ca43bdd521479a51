// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/roster-mesh/roster/kube"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	listers "github.com/roster-mesh/roster/kube/client/listers/api/v1alpha1"
	"github.com/roster-mesh/roster/replica"
	"github.com/roster-mesh/roster/syncrules/engine"
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
	if r.isFrozen() || !r.mayReopen() {
		t.Error("a confirmation allows a new epoch")
	}
	if r.reopened(); r.mayReopen() {
		t.Error("it allows two")
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
	if said := s.problems.String(); !strings.Contains(said, errRestored.Error()) || strings.Contains(said, v1alpha1.AnnotationConfirmRestore) {
		t.Errorf("before it is known what was there it says %q", said)
	}
	for range 2 { // the mirror may tell of the object several times
		if ends, err := s.confirmed(t.Context()); ends || err != nil {
			t.Fatalf("confirmed by what was there: %t, %v", ends, err)
		}
		if said := s.problems.String(); !strings.Contains(said, v1alpha1.AnnotationConfirmRestore) {
			t.Errorf("it says %q", said)
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

// TestARuleMadeAgainIsNotTakenForGone: a rule may come back just as the engine is to be told that it is gone.
func TestARuleMadeAgainIsNotTakenForGone(t *testing.T) {
	_, client := objectServer(t, map[string]map[string]any{})
	reported := make(chan string, 16)
	nobody := func() *v1alpha1.Cluster { return nil }
	e, err := engine.New(engine.Options{
		LocalClusterID: "me", Local: nothing{}, Target: client, Cluster: nobody, Report: func(rule string, _ engine.RuleReport) { reported <- rule },
	})
	if err != nil {
		t.Fatal(err)
	}
	s := &session{client: client, engine: e, log: slog.New(slog.DiscardHandler), clusterID: "me"}
	s.newLoops()
	s.registry = &registry{session: s}
	rule := &v1alpha1.ResourceSyncRule{ObjectMeta: metav1.ObjectMeta{Name: "r"}}
	told := make(chan struct{})
	lister := &comingBack{rule: rule, back: func() {
		go func() {
			defer close(told)
			s.registry.ruleChanged(nil, rule)
		}()
		select { // until the engine was told, which must not be now
		case <-told:
		case <-time.After(100 * time.Millisecond):
		}
	}}
	s.registry.rules = lister
	s.unsettle(rule)
	s.replica = ownReplica(t)
	s.settleRule("r", true)
	<-told
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	e.Ready()
	go func() { ended <- e.Run(ctx) }()
	select {
	case <-reported:
	case <-time.After(60 * time.Second):
		t.Error("the engine does not know of the rule")
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestWhatIsReadAfterAFreezeIsNotPublished: the registry may take in what a restore has brought while the publisher is
// at work.
func TestWhatIsReadAfterAFreezeIsNotPublished(t *testing.T) {
	s := quietSession(t)
	key := replica.Key{Kind: replica.KindRule, Name: "r"}
	if _, err := s.replica.Publish(key, replica.Live, []byte("{}")); err != nil {
		t.Fatal(err)
	}
	s.registry = &registry{session: s, rules: &comingBack{back: s.freeze}}
	if err := s.publishLocal(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	if e, ok := s.replica.Lookup(key, "me"); !ok || e.Status != replica.Live {
		t.Errorf("the rule is published as %v, %t", e.Status, ok)
	}
}

// TestAllIsNotCompleteAcrossAConfirmation: what was left out while the cluster was frozen is not known to be gone
// because the freeze ends just then.
func TestAllIsNotCompleteAcrossAConfirmation(t *testing.T) {
	s := quietSession(t)
	empty := cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil)
	s.registry = &registry{
		session: s, rules: listers.NewResourceSyncRuleLister(empty), clusters: listers.NewClusterLister(empty),
		features: confirming{listers.NewClusterFeatureLister(empty), func() {
			if _, ends := s.restore.hear("new"); !ends {
				t.Error("it was not confirmed")
			}
		}},
	}
	s.restore.frozen = &freeze{Known: true, Token: "old"}
	if err := s.publishAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s.replica.Absent(replica.Key{Kind: replica.KindRule, Name: "r"}, "me") {
		t.Error("a rule that was not published counts as gone")
	}
}

// TestAnOwnRuleWaitsWhileFrozen: a restored rule may be written to, by the agent's own status too, and is newer then.
func TestAnOwnRuleWaitsWhileFrozen(t *testing.T) {
	s := quietSession(t)
	index := cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil)
	s.registry = &registry{session: s, rules: listers.NewResourceSyncRuleLister(index)}
	s.freeze()
	before := &v1alpha1.ResourceSyncRule{ObjectMeta: metav1.ObjectMeta{Name: "r", ResourceVersion: "900"}}
	now := &v1alpha1.ResourceSyncRule{ObjectMeta: metav1.ObjectMeta{Name: "r", ResourceVersion: "1210"}}
	if err := index.Add(now); err != nil {
		t.Fatal(err)
	}
	s.registry.ruleChanged(before, now) // without an engine to tell
	if names := s.restore.names(); len(names) != 1 {
		t.Errorf("unsettled: %v", names)
	}
}

// confirming has no features, and hears a confirmation when it is asked.
type confirming struct {
	listers.ClusterFeatureLister
	hear func()
}

func (c confirming) List(selector labels.Selector) ([]*v1alpha1.ClusterFeature, error) {
	c.hear()
	return c.ClusterFeatureLister.List(selector)
}

// quietSession has a name and a replica, and nothing that runs.
func quietSession(t *testing.T) *session {
	t.Helper()
	s := &session{log: slog.New(slog.DiscardHandler), clusterID: "me", replica: ownReplica(t)}
	s.newLoops()
	name := "own"
	s.name.Store(&name)
	s.problems.changed = func() {}
	return s
}

// ownReplica has no entries and knows no member.
func ownReplica(t *testing.T) *replica.Replica {
	t.Helper()
	r, err := replica.New(replica.Options{Self: "me", PrivateKey: ed25519.NewKeyFromSeed(make([]byte, 32)), Epoch: 1, Keyring: nobodyElse{}})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// comingBack has no rule when it is asked first, and one from then on.
type comingBack struct {
	listers.ResourceSyncRuleLister
	rule  *v1alpha1.ResourceSyncRule
	back  func()
	asked atomic.Bool
}

func (c *comingBack) Get(string) (*v1alpha1.ResourceSyncRule, error) {
	if c.asked.Swap(true) {
		return c.rule, nil
	}
	c.back()
	return nil, errGone
}

// nothing is an API server that says nothing.
type nothing struct{}

func (nothing) Watch(ctx context.Context, _ engine.Scope, _ func(*unstructured.Unstructured) bool, _ engine.Sink) error {
	<-ctx.Done()
	return ctx.Err()
}

// nobodyElse knows no key.
type nobodyElse struct{}

func (nobodyElse) Key(string) (ed25519.PublicKey, bool)              { return nil, false }
func (nobodyElse) Introduce(string, ed25519.PublicKey, string) error { return errGone }
func (nobodyElse) Remove(string, ed25519.PublicKey)                  {}
func (nobodyElse) Swapped(string) bool                               { return false }

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
		if r.Method == http.MethodPut || r.Method == http.MethodPost {
			var obj unstructured.Unstructured
			if data, err := io.ReadAll(r.Body); err != nil || json.Unmarshal(asJSON(data), &obj.Object) != nil {
				t.Error("not an object")
			}
			name = obj.GetName()
			o.set(name, obj.Object)
		}
		o.mu.Lock()
		defer o.mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		if o.have[name] == nil {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		if r.Method == http.MethodDelete {
			defer delete(o.have, name)
		}
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
