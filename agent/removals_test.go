// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/roster-mesh/roster/kube"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/mesh"
	"github.com/roster-mesh/roster/replica"
)

// vault is an API server that keeps Secrets and refuses what is too large for etcd.
type vault struct {
	mu      sync.Mutex
	secrets map[string][]byte
	largest int
	written int
}

func newVault(t *testing.T) (*vault, *kube.Client) {
	t.Helper()
	v := &vault{secrets: map[string][]byte{}}
	server := httptest.NewServer(v)
	t.Cleanup(server.Close)
	client, err := kube.NewClient(&rest.Config{Host: server.URL, QPS: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return v, client
}

func (v *vault) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	v.mu.Lock()
	defer v.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	name := path.Base(r.URL.Path)
	sent, _ := io.ReadAll(r.Body)
	body := asJSON(sent)
	switch r.Method {
	case http.MethodPost, http.MethodPut:
		var named struct{ Metadata struct{ Name string } }
		if err := json.Unmarshal(body, &named); err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		v.largest = max(v.largest, len(sent))
		v.written++
		v.secrets[named.Metadata.Name] = body
	default:
		if body = v.secrets[name]; body == nil {
			w.WriteHeader(http.StatusNotFound)
			body, _ = json.Marshal(metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure", Reason: metav1.StatusReasonNotFound, Code: 404})
		}
	}
	_, _ = w.Write(body)
}

// asJSON is an object as JSON, also one that was sent in protobuf.
func asJSON(body []byte) []byte {
	if !bytes.HasPrefix(body, []byte("k8s\x00")) {
		return body
	}
	object, kind, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
	if err != nil {
		return nil
	}
	object.GetObjectKind().SetGroupVersionKind(*kind)
	data, err := json.Marshal(object)
	if err != nil {
		return nil
	}
	return data
}

// someRemovals are by one member, of keys that belong to nobody.
func someRemovals(t *testing.T, n int) []removal {
	t.Helper()
	r := ownReplica(t)
	out := make([]removal, n)
	for i := range out {
		key := sha256.Sum256(fmt.Append(nil, i))
		signed, err := r.SignRemoval(fmt.Sprintf("%0*d", replica.MaxOrigin, i), key[:], strings.Repeat("n", replica.MaxName), strings.Repeat("m", replica.MaxName), 1767323045)
		if err != nil {
			t.Fatal(err)
		}
		out[i] = removal{Removal: signed, strange: i%3 == 0, ended: i%2 == 0, ordered: i == 0, waiting: map[bool][]string{true: {"x"}}[i == 0]}
	}
	return out
}

// TestRemovalsAreRecorded: more than fit into one Secret come back as they were, and no Secret is too large.
func TestRemovalsAreRecorded(t *testing.T) {
	v, client := newVault(t)
	p := &private{client: client, namespace: "p"}
	want := someRemovals(t, 2*removalsEach+7)
	if err := p.recordRemovals(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	if len(v.secrets) != 3 || v.largest > 1<<20 {
		t.Errorf("%d Secrets, the largest with %d bytes", len(v.secrets), v.largest)
	}
	t.Logf("%d removals take %d bytes at most in a Secret", removalsEach, v.largest)
	got, err := p.removals(t.Context(), slog.New(slog.DiscardHandler))
	if err != nil || len(got) != len(want) {
		t.Fatal(len(got), err)
	}
	for _, w := range want {
		i := slices.IndexFunc(got, func(g removal) bool { return g.ClusterID == w.ClusterID })
		if i < 0 || !slices.Equal(got[i].Message(), w.Message()) || got[i].strange != w.strange || got[i].ended != w.ended || got[i].ordered != w.ordered || !slices.Equal(got[i].waiting, w.waiting) {
			t.Fatalf("%s came back as %+v", w.ClusterID, got[max(i, 0)])
		}
	}
}

// TestRemovalsThatManyAwait: removals that were ordered in a large group, where next to nobody has confirmed any, fit
// into their Secrets, and after a restart every member is asked.
func TestRemovalsThatManyAwait(t *testing.T) {
	v, client := newVault(t)
	p := &private{client: client, namespace: "p"}
	list := someRemovals(t, removalsEach)
	var members []string
	for i := range 4000 {
		members = append(members, fmt.Sprintf("%0*d", replica.MaxOrigin, i))
	}
	for i := range list {
		list[i].ordered, list[i].waiting = true, members[:removalsWaiting+i%2]
	}
	list[0].waiting = members
	if err := p.recordRemovals(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d removals take %d bytes", removalsEach, v.largest)
	if v.largest > 1<<20 {
		t.Errorf("a Secret has %d bytes", v.largest)
	}
	if len(list[0].waiting) != len(members) {
		t.Error("what is recorded changed what is held")
	}
	got, err := p.removals(t.Context(), slog.New(slog.DiscardHandler))
	if err != nil || len(got) != len(list) {
		t.Fatal(len(got), err)
	}
	for _, g := range got {
		if g.unasked == (len(g.waiting) > 0) || len(g.waiting) > removalsWaiting {
			t.Fatalf("%s is awaited by %d, all: %t", g.ClusterID, len(g.waiting), g.unasked)
		}
	}
	s, _ := grouped(t)
	if err := s.trust.Pin(idC, keyFor(idC).Public().(ed25519.PublicKey)); err != nil {
		t.Fatal(err)
	}
	r, err := s.replica.SignRemoval(idB, keyFor(idB).Public().(ed25519.PublicKey), "", "", 0)
	if err != nil {
		t.Fatal(err)
	}
	s.removals.take(removal{Removal: r, ordered: true, unasked: true})
	s.resume()
	if held, _ := s.removals.of(idB, r.PublicKey); held.unasked || !slices.Equal(held.waiting, []string{idC}) {
		t.Errorf("after a restart it is awaited by %v", held.waiting)
	}
}

// TestStrangeRemovals: those about keys that nobody here knows cost no request of their own, end nobody's access, and
// do not make a cluster gone that they name.
func TestStrangeRemovals(t *testing.T) {
	s, g := grouped(t)
	for _, id := range []string{idB, idC} {
		if err := s.trust.Pin(id, keyFor(id).Public().(ed25519.PublicKey)); err != nil {
			t.Fatal(err)
		}
	}
	author, err := replica.New(replica.Options{Self: idC, PrivateKey: keyFor(idC), Epoch: 1, Keyring: s.trust})
	if err != nil {
		t.Fatal(err)
	}
	told := func(id, key string) {
		t.Helper()
		r, err := author.SignRemoval(id, keyFor(key).Public().(ed25519.PublicKey), "", "", 0)
		if err == nil {
			_, _, err = s.replica.Merge(r.Message(), "")
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	told(idB, "junk")
	told("pasted", "junk")
	if s.chores.queue.Len() != 0 || s.gone("pasted") || s.gone(idB) {
		t.Errorf("%d chores; a cluster is gone: %t", s.chores.queue.Len(), s.gone("pasted"))
	}
	if err, ended := s.carryOut(t.Context()), g.ended(); err != nil || len(ended) != 0 {
		t.Errorf("ended: %v, %v", ended, err)
	}
	told(idB, idB)
	if !s.gone(idB) || s.gone("pasted") || s.chores.queue.Len() == 0 {
		t.Error("the cluster whose key it was is not gone")
	}
	if err, ended := s.carryOut(t.Context()), g.ended(); err != nil || !slices.Contains(ended, readerAccount+"-"+idB) || !slices.Contains(ended, peerSecret+idB) {
		t.Errorf("ended: %v, %v", ended, err)
	}
	again := &session{clusterID: idA, private: s.private, trust: s.trust, log: s.log}
	if err := again.recall(t.Context()); err != nil || !again.gone(idB) || again.gone("pasted") {
		t.Errorf("after a restart: %v", err)
	}
}

// TestBlame: who removed a cluster is told as known only where its key was pinned here.
func TestBlame(t *testing.T) {
	s, _ := grouped(t)
	for _, id := range []string{idB, idC} {
		if err := s.trust.Pin(id, keyFor(id).Public().(ed25519.PublicKey)); err != nil {
			t.Fatal(err)
		}
	}
	for by, hearsay := range map[string]bool{idC: false, "somebody": true} {
		signed := signedBy(t, by, idB, keyFor(by))
		s.removals = removals{}
		s.removed(signed, true, true)
		r, _ := s.removals.of(idB, signed.PublicKey)
		if text := told(r); !strings.Contains(text, "by cluster "+by) || strings.Contains(text, "as another member says") != hearsay {
			t.Errorf("by %s: %s", by, text)
		}
	}
}

// TestRefusalIsSaidOnce: a request that is left on an object is complained of once, not at each change of it.
func TestRefusalIsSaidOnce(t *testing.T) {
	var s said
	if !s.first("uid", "why") || s.first("uid", "why") || !s.first("another", "why") || !s.first("uid", "another why") {
		t.Error("it is said again, or not at all")
	}
	for i := range 2 * maxSaid {
		s.first(fmt.Sprint(i), "why")
	}
	if len(s.last) > maxSaid {
		t.Errorf("%d are remembered", len(s.last))
	}
}

// TestGone: a cluster is gone while it was removed, or left behind, and not admitted again.
func TestGone(t *testing.T) {
	keys := [3]ed25519.PublicKey{}
	for i := range keys {
		seed := sha256.Sum256([]byte{byte(i)})
		keys[i] = ed25519.NewKeyFromSeed(seed[:]).Public().(ed25519.PublicKey)
	}
	s := &session{clusterID: idA, trust: mesh.NewTrust(mesh.Pin{ClusterID: idA, PublicKey: keys[0]}, nil)}
	if err := s.trust.Pin(idB, keys[1]); err != nil {
		t.Fatal(err)
	}
	is := func(what string, gone bool) {
		t.Helper()
		if s.gone(idB) != gone {
			t.Errorf("%s: gone is %t", what, !gone)
		}
	}
	is("a member", false)
	s.removals.take(removal{Removal: replica.Removal{ClusterID: idB, PublicKey: keys[1], By: idC}})
	s.trust.Remove(idB, keys[1])
	is("removed", true)
	if err := s.trust.Pin(idB, keys[2]); err != nil {
		t.Fatal(err)
	}
	is("admitted again", false)
	s.removals.depart([]string{idB})
	s.trust.Forget(idB)
	is("left behind", true)
	if s.gone(idA) || s.gone(idC) {
		t.Error("others are gone, too")
	}
}

// TestStatusOfTheRemoved: the reason stands before every other, in the removed cluster and of an object with its key.
func TestStatusOfTheRemoved(t *testing.T) {
	for _, local := range []bool{true, false} {
		want, _ := clusterStatus(view{local: local, removed: "was removed by X", problem: "another", peers: 1}, v1alpha1.ClusterStatus{}, 1)
		if want.State != v1alpha1.ClusterStateFailed || want.Message != "was removed by X" {
			t.Errorf("local %t: %s, %q", local, want.State, want.Message)
		}
		for _, kind := range []string{v1alpha1.ConditionReady, v1alpha1.ConditionMember} {
			i := slices.IndexFunc(want.Conditions, func(c metav1.Condition) bool { return c.Type == kind })
			if c := want.Conditions[i]; c.Status != metav1.ConditionFalse || c.Reason != v1alpha1.MemberRemoved {
				t.Errorf("local %t: %+v", local, c)
			}
		}
	}
	want, _ := clusterStatus(view{local: true, left: "left on Monday"}, v1alpha1.ClusterStatus{}, 1)
	if i := slices.IndexFunc(want.Conditions, func(c metav1.Condition) bool { return c.Message == "left on Monday" }); i < 0 {
		t.Errorf("it does not say that it left: %+v", want.Conditions)
	}
}

// TestKeyIsReplacedOnce: a crash after the key was replaced does not cost it another one, and the epoch goes on.
func TestKeyIsReplacedOnce(t *testing.T) {
	_, client := newVault(t)
	p := &private{client: client, namespace: "p"}
	old, err := p.identity(t.Context(), idA, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.openEpoch(t.Context(), 6); err != nil {
		t.Fatal(err)
	}
	var keys []ed25519.PrivateKey
	for range 2 {
		if err := p.replaceKey(t.Context(), old.Public().(ed25519.PublicKey)); err != nil {
			t.Fatal(err)
		}
		key, err := p.identity(t.Context(), idA, nil)
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, key)
	}
	if keys[0].Equal(old) || !keys[0].Equal(keys[1]) {
		t.Error("the key was not replaced once")
	}
	if epoch, err := p.openEpoch(t.Context(), 0); err != nil || epoch != 8 {
		t.Errorf("epoch %d: %v", epoch, err)
	}
}
