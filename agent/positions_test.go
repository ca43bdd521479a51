// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roster-mesh/roster/kube"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/kube/history"
	"github.com/roster-mesh/roster/mesh"
	"github.com/roster-mesh/roster/replica"
	"github.com/roster-mesh/roster/syncrules/engine"
)

func recorder(t *testing.T) (*objects, *session) {
	t.Helper()
	api, client := objectServer(t, map[string]map[string]any{})
	s := &session{clusterID: idA, client: client, private: &private{client: client, namespace: "p"}, log: slog.New(slog.DiscardHandler)}
	s.newLoops()
	s.peers, s.registry = newPeers(s, nil), newRegistry(s)
	key := keyFor(idA)
	s.trust = mesh.NewTrust(mesh.Pin{ClusterID: idA, PublicKey: key.Public().(ed25519.PublicKey)}, nil)
	var err error
	s.engine, err = engine.New(engine.Options{
		LocalClusterID: idA, Local: nothing{}, Target: client,
		Cluster: func() *v1alpha1.Cluster { return nil }, Report: func(string, engine.RuleReport) {},
	})
	if err != nil {
		t.Fatal(err)
	}
	if s.replica, err = replica.New(replica.Options{Self: idA, PrivateKey: key, Epoch: 1, Keyring: s.trust}); err != nil {
		t.Fatal(err)
	}
	return api, s
}

func listed(id string) *v1alpha1.Cluster {
	return &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "cluster-" + id}, Spec: v1alpha1.ClusterSpec{ClusterID: types.UID(id)}}
}

// What is recorded is known to the next agent, of peers that it reads from only later as well; and it is written when
// there is news, once.
func TestPositionsAreRecorded(t *testing.T) {
	api, s := recorder(t)
	for _, id := range []string{idB, "c"} {
		if err := s.registry.clusterIndex.Add(listed(id)); err != nil {
			t.Fatal(err)
		}
	}
	next := func() map[string][]byte {
		t.Helper()
		if err := s.recordPositions(t.Context()); err != nil {
			t.Fatal(err)
		}
		past, err := s.private.positions(t.Context(), s.log)
		if err != nil {
			t.Fatal(err)
		}
		return past
	}
	if past := next(); len(past) > 0 {
		t.Errorf("without peers: %q", past)
	}
	s.peers.positions(idB).Confirm("yes")
	want, err := s.peers.positions(idB).Note()
	if err != nil {
		t.Fatal(err)
	}
	past := next()
	if diff := cmp.Diff(map[string][]byte{idB: want}, past); diff != "" {
		t.Errorf("recorded (-want +got):\n%s", diff)
	}
	api.set(positionsSecret, nil)
	if past := next(); len(past) > 0 {
		t.Errorf("written without news: %q", past)
	}
	s.peers = newPeers(s, past) // another agent, which has not come to B yet
	s.peers.positions("c").Confirm("yes")
	if past = next(); len(past) != 2 || string(past[idB]) != string(want) {
		t.Errorf("of B and C there is %q", past)
	}
	s.peers = newPeers(s, past)
	s.peers.positions(idB).Confirm("yes")
	if s.peers.news() {
		t.Error("what was confirmed to an earlier agent is news")
	}
	api.set(positionsSecret, nil)
	s.peers.positions(idB).Confirm("later")
	s.peers.positions("c")
	if err := s.registry.clusterIndex.Delete(listed(idB)); err != nil {
		t.Fatal(err)
	}
	if err := s.offerPeer(t.Context(), idB); err != nil {
		t.Fatal(err)
	}
	if past = next(); len(past) != 1 || past["c"] == nil {
		t.Errorf("after B was forgotten there is %q", past)
	}
	s.peers = newPeers(s, map[string][]byte{idB: want})
	if past = next(); len(past) > 0 || s.peers.positions(idB).News() {
		t.Errorf("B, which is not known any more, is recorded still: %q", past)
	}
}

// What could not be recorded is tried again.
func TestPositionsThatCouldNotBeRecorded(t *testing.T) {
	_, s := recorder(t)
	if err := s.registry.clusterIndex.Add(listed(idB)); err != nil {
		t.Fatal(err)
	}
	s.peers.positions(idB).Confirm("yes")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.recordPositions(ctx); err == nil {
		t.Fatal("recorded without an API server")
	}
	if err := s.recordPositions(t.Context()); err != nil {
		t.Fatal(err)
	}
	if past, err := s.private.positions(t.Context(), s.log); past[idB] == nil || err != nil {
		t.Errorf("recorded: %q, %v", past, err)
	}
}

// A Cluster object that is deleted here, and comes back, does not make us forget where its cluster was.
func TestPositionsOutliveAClusterObject(t *testing.T) {
	_, s := recorder(t)
	key := keyFor(idB)
	if err := s.trust.Pin(idB, key.Public().(ed25519.PublicKey)); err != nil {
		t.Fatal(err)
	}
	said, err := signer(t, idB, key).Publish(clusterKey(idB), replica.Live, []byte("{}"))
	if err != nil {
		t.Fatal(err)
	}
	for _, message := range said {
		if _, _, err := s.replica.Merge(message, ""); err != nil {
			t.Fatal(err)
		}
	}
	before := s.peers.positions(idB)
	s.peers.ended(idB)
	if err := s.offerPeer(t.Context(), idB); err != nil {
		t.Fatal(err)
	}
	if s.peers.positions(idB) != before {
		t.Error("forgotten with its Cluster object")
	}
}

// A restore that is noticed is recorded at once.
func TestARestoreIsRecordedAtOnce(t *testing.T) {
	_, s := recorder(t)
	sink := &peerSink{Sink: nobody{}, source: &peerSource{session: s, id: idB}}
	for err, want := range map[error]int{nil: 0, kube.ErrForbidden: 0, kube.ErrRestored: 1} {
		if sink.Health(err); want > 0 != (s.chores.queue.Len() > 0) {
			t.Errorf("%v: %d chores", err, s.chores.queue.Len())
		}
		if s.chores.queue.Len() > 0 {
			c, _ := s.chores.queue.Get()
			s.chores.queue.Done(c)
		}
	}
}

// nobody hears how a watch fares.
type nobody struct{ engine.Sink }

func (nobody) Health(error) {}

// A record that cannot be read keeps no agent from starting.
func TestUnreadablePositions(t *testing.T) {
	api, s := recorder(t)
	for _, data := range []string{"", "e30=", "H4sIAAAAAAAA"} {
		api.set(positionsSecret, map[string]any{"apiVersion": "v1", "kind": "Secret", "data": map[string]any{positionsKey: data}})
		if past, err := s.private.positions(t.Context(), s.log); len(past) > 0 || err != nil {
			t.Errorf("%s: %q, %v", data, past, err)
		}
	}
	s.peers = newPeers(s, map[string][]byte{idB: []byte("{")})
	if s.peers.positions(idB) == nil {
		t.Error("no positions")
	}
}

// An agent that ends between the parts of a record leaves older notes in the later ones.
func TestTheFirstPartOfTheRecordIsTheNewest(t *testing.T) {
	api, s := recorder(t)
	if err := s.private.recordPositions(t.Context(), map[string][]byte{idB: []byte(`"newer"`)}, s.log); err != nil {
		t.Fatal(err)
	}
	older, _, err := packPositions([]string{"c", idB}, map[string][]byte{"c": []byte(`"c"`), idB: []byte(`"older"`)})
	if err != nil {
		t.Fatal(err)
	}
	api.set(positionsName(1), map[string]any{"apiVersion": "v1", "kind": "Secret", "data": map[string]any{positionsKey: base64.StdEncoding.EncodeToString(older)}})
	past, err := s.private.positions(t.Context(), s.log)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string][]byte{idB: []byte(`"newer"`), "c": []byte(`"c"`)}, past); diff != "" {
		t.Errorf("recorded (-want +got):\n%s", diff)
	}
}

// The record has room for a large group, and stays small enough for a Secret when peers have us note much.
func TestTheRecordOfPositionsIsBounded(t *testing.T) {
	api, s := recorder(t)
	sizes := func(notes map[string][]byte) (out []int) {
		t.Helper()
		if err := s.private.recordPositions(t.Context(), notes, s.log); err != nil {
			t.Fatal(err)
		}
		api.mu.Lock()
		defer api.mu.Unlock()
		for part := range maxParts + 1 {
			data, _ := api.have[positionsName(part)]["data"].(map[string]any)
			text, _ := data[positionsKey].(string)
			packed, err := base64.StdEncoding.DecodeString(text)
			if err != nil {
				t.Fatal(err)
			}
			if len(packed) > 0 {
				out = append(out, len(packed))
			}
		}
		return out
	}
	random := func(bytes int) string {
		data := make([]byte, bytes)
		_, _ = rand.Read(data)
		return base64.RawURLEncoding.EncodeToString(data)
	}
	notes := map[string][]byte{}
	for i := range 1000 {
		var kinds []map[string]any
		for _, kind := range []string{"Secret", "ConfigMap", "Widget"} {
			one := map[string]any{"namespace": random(6), "name": random(12), "version": fmt.Sprint(100_000_000 + 7919*i)}
			kinds = append(kinds, map[string]any{"version": "v1", "kind": kind, "highest": fmt.Sprint(100_000_000 + 7919*i), "seen": 1_700_000_000 + i, "newest": []any{one}, "gone": []any{one}})
		}
		note, err := json.Marshal(map[string]any{"confirmations": [][]byte{[]byte(random(24))}, "kinds": kinds})
		if err != nil || history.NewPositions().Recall(note) != nil {
			t.Fatal("not a note")
		}
		notes[random(16)] = note
	}
	parts := sizes(notes)
	t.Logf("1,000 peers with three kinds each take %d bytes", parts)
	if len(parts) != 1 || parts[0] > maxPacked/2 {
		t.Errorf("1,000 peers with three kinds each take %d bytes", parts)
	}
	small := maps.Clone(notes)
	for range 100 {
		notes["large "+random(16)] = []byte(`"` + random(history.MaxNote*3/4-2) + `"`)
	}
	parts = sizes(notes)
	if len(parts) != maxParts || slices.Max(parts) > 1<<20-128<<10 {
		t.Errorf("the record has %d bytes", parts)
	}
	past, err := s.private.positions(t.Context(), s.log)
	if err != nil || len(past) < 1000+maxParts || len(past) == len(notes) {
		t.Fatalf("%d notes are recorded, error %v", len(past), err)
	}
	for id, note := range notes {
		if len(note) < 10<<10 && string(past[id]) != string(note) {
			t.Fatal("a small note was left out")
		}
	}
	if parts := sizes(small); len(parts) != 1 {
		t.Errorf("when there are few again the record has %d bytes", parts)
	}
}
