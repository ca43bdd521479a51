// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

func TestObjectsAreOneRequestEach(t *testing.T) {
	withAPI(t, func(t *testing.T, a *api, c *Client) {
		ctx, secrets := t.Context(), c.Secrets("a")
		immutable := true
		made, err := secrets.Create(ctx, &Secret{
			ObjectMeta: metav1.ObjectMeta{Name: "s", Namespace: "a", UID: "uid-s"},
			Type:       "Opaque", Data: map[string][]byte{"k": {0, 255}}, Immutable: &immutable,
		})
		if err != nil {
			t.Fatal(err)
		}
		stale := *made
		made.Data["k"] = []byte("new")
		if _, err := secrets.Update(ctx, made); err != nil {
			t.Fatal(err)
		}
		if _, err := secrets.Update(ctx, &stale); !apierrors.IsConflict(err) {
			t.Errorf("update of a stale object: %v", err)
		}
		got, err := secrets.Read(ctx, "s")
		if err != nil || string(got.Data["k"]) != "new" || got.Type != "Opaque" || !*got.Immutable {
			t.Errorf("read %v, %v", got, err)
		}
		all, err := secrets.List(ctx)
		if err != nil || len(all) != 1 || all[0].Name != "s" {
			t.Errorf("listed %v, %v", all, err)
		}
		if err := secrets.Delete(ctx, "s", &metav1.Preconditions{UID: &got.UID, ResourceVersion: &got.ResourceVersion}); err != nil {
			t.Fatal(err)
		}
		if _, err := secrets.Read(ctx, "s"); !apierrors.IsNotFound(err) {
			t.Errorf("read of what is gone: %v", err)
		}
		if diff := cmp.Diff([]string{"create", "update", "update", "get", "list", "delete", "get"}, a.takeRequests()); diff != "" {
			t.Errorf("requests (-want +got):\n%s", diff)
		}
	})
}

// Change does not touch fields that this version of the type does not know.
func TestChangeWritesOnlyTheDifference(t *testing.T) {
	withAPI(t, func(t *testing.T, a *api, c *Client) {
		var path, sent string
		a.handle = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			path, sent = r.Method+" "+r.URL.Path+" "+r.Header.Get("Content-Type"), string(body)
			writeJSON(w, http.StatusOK, map[string]any{"apiVersion": "clusterregistry.k8s.cisco.com/v1alpha1", "kind": "Cluster", "metadata": map[string]any{"name": "first", "resourceVersion": "8"}})
		})
		was := &v1alpha1.Cluster{
			ObjectMeta: metav1.ObjectMeta{Name: "first", UID: "u", ResourceVersion: "7", Labels: map[string]string{"a": "b", "c": "d"}},
			Spec:       v1alpha1.ClusterSpec{ClusterID: "id", Mesh: &v1alpha1.ClusterMesh{PublicKey: []byte{1, 2}, Endpoints: []string{"x:1"}}},
		}
		now := was.DeepCopy()
		now.Labels = map[string]string{"a": "b"}
		now.Spec.Mesh.Endpoints = []string{"x:1", "y:2"}
		now.Status.Type = v1alpha1.ClusterTypePeer
		const begin, at = `{"apiVersion":"clusterregistry.k8s.cisco.com/v1alpha1","kind":"Cluster","metadata":{`, "PATCH /apis/clusterregistry.k8s.cisco.com/v1alpha1/clusters/first"
		got, err := c.Clusters().Change(t.Context(), was, now)
		if want := begin + `"labels":{"c":null},"name":"first","resourceVersion":"7","uid":"u"},"spec":{"mesh":{"endpoints":["x:1","y:2"]}},"status":{"type":"Peer"}}`; err != nil || got.ResourceVersion != "8" || sent != want || path != at+" application/merge-patch+json" {
			t.Errorf("%s: %v\n got %s\nwant %s", path, err, sent, want)
		}
		now = was.DeepCopy()
		now.Status.State = v1alpha1.ClusterStateReady
		_, err = c.Clusters().ChangeStatus(t.Context(), was, now)
		if want := begin + `"name":"first","resourceVersion":"7","uid":"u"},"status":{"state":"Ready"}}`; err != nil || sent != want || path != at+"/status application/merge-patch+json" {
			t.Errorf("%s: %v\n got %s\nwant %s", path, err, sent, want)
		}
	})
}

func TestEventsAboutLongNames(t *testing.T) {
	now := time.Now()
	for _, n := range []int{1, 200, 252, 253} {
		long := strings.Repeat("a", n/2) + "." + strings.Repeat("b", n-n/2-1)
		if n == 1 {
			long = "a"
		}
		name := eventName(long, now)
		if bad := validation.IsDNS1123Subdomain(name); len(bad) > 0 || name == eventName(long, now.Add(1)) {
			t.Errorf("an object with a name of %d has the event %s: %v", n, name, bad)
		}
	}
	// It is not cut at a character that names may not end with.
	if bad := validation.IsDNS1123Subdomain(eventName(strings.Repeat("a.", 126)+"a", now)); len(bad) > 0 {
		t.Error(bad)
	}
}

func TestRepeatedEventsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t)
		var requests []string
		a.handle = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			var e event
			raw, _ := io.ReadAll(r.Body)
			_ = json.Unmarshal(raw, &e)
			namespace, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/api/v1/namespaces/"), "/")
			requests = append(requests, strings.TrimSpace(strings.Join([]string{
				r.Method, namespace, e.Type, e.Reason, e.Message, e.About.Kind, e.About.Name, map[bool]string{true: "counted"}[e.Count > 1],
			}, " ")))
			writeJSON(w, http.StatusOK, map[string]any{"metadata": map[string]any{}})
		})
		r := NewRecorder(a.client(t), "test", slog.New(slog.DiscardHandler), time.Now)
		done := make(chan error, 1)
		go func() { done <- r.Run(t.Context()) }()
		cluster := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "first", UID: "u"}}
		record := func(reason string) {
			r.Event(r.client.Clusters().Kind(), cluster, EventNormal, reason, "line\none")
			synctest.Wait()
		}
		record("A")
		record("A")
		record("B")
		time.Sleep(eventRepeats)
		record("A")
		want := []string{
			"POST default Normal A line one Cluster first", "PATCH default     counted",
			"POST default Normal B line one Cluster first", "POST default Normal A line one Cluster first",
		}
		for i := range requests {
			requests[i] = strings.Join(strings.Fields(requests[i]), " ")
			want[i] = strings.Join(strings.Fields(want[i]), " ")
		}
		if diff := cmp.Diff(want, requests); diff != "" {
			t.Errorf("requests (-want +got):\n%s", diff)
		}
		for range 100 {
			record("A")
		}
		if len(requests) > eventBurst+2 {
			t.Errorf("%d events about one object at once", len(requests))
		}
		// During an outage of the API server one event is retried, and more are dropped.
		cluster.UID = "v"
		a.net.setRefuse(true)
		record("C")
		time.Sleep(3 * eventPause)
		before := len(requests)
		a.net.setRefuse(false)
		time.Sleep(eventPause)
		synctest.Wait()
		if len(requests) != before+1 {
			t.Errorf("%d events written after the outage", len(requests)-before)
		}
		for range 2 * eventQueue {
			r.Event(r.client.Clusters().Kind(), cluster, EventNormal, "D", "")
		}
	})
}

// After decoding, a count of 0 is the same as one that was never written.
func TestDifferenceRepeatsZeroValues(t *testing.T) {
	was := map[string]any{"status": map[string]any{"failed": int64(0), "matched": int64(2), "gone": "x"}}
	now := map[string]any{"status": map[string]any{"failed": int64(0), "matched": int64(2)}}
	want := map[string]any{"status": map[string]any{"failed": int64(0), "gone": nil}}
	if got := difference(was, now); !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
