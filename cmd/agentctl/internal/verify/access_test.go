// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/apitest"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/clusters"
)

// serve is an API server with a cluster's own objects, and a client of it.
func serve(t *testing.T) (*apitest.Server, *clusters.Client) {
	t.Helper()
	s := apitest.New()
	t.Cleanup(s.Close)
	s.Put(apitest.Parse(t, "{apiVersion: v1, kind: Namespace, metadata: {name: kube-system, uid: id-east}}"))
	s.Put(apitest.Parse(t, "{apiVersion: clusterregistry.k8s.cisco.com/v1alpha1, kind: Cluster, metadata: {name: east}, spec: {clusterID: id-east}}"))
	return s, clientOf(t, s.URL)
}

func clientOf(t *testing.T, url string) *clusters.Client {
	t.Helper()
	c, err := clusters.New("east", &rest.Config{Host: url})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func secretOptions() *Options {
	return &Options{Namespace: "ns", Kind: kindSecret, Timeout: time.Minute}
}

// Whoever lacks a right is told so before anything is written, in the cluster of the canary and in those that are watched.
func TestRightsAreAskedFor(t *testing.T) {
	t.Parallel()
	for right, said := range map[string]string{
		"create resourcesyncrules": "create resourcesyncrules.clusterregistry.k8s.cisco.com", "delete resourcesyncrules": "delete resourcesyncrules.clusterregistry.k8s.cisco.com",
		"create secrets": "create secrets in namespace ns", "patch secrets": "patch secrets in namespace ns", "delete secrets": "delete secrets in namespace ns",
	} {
		s, own := serve(t)
		s.Deny(right)
		if _, err := newCanary(t.Context(), own, secretOptions()); err == nil || !strings.Contains(err.Error(), "you may not "+said+"; nothing was changed") {
			t.Errorf("without the right to %s: %v", right, err)
		}
		if made := strings.TrimSpace(s.Writes()); made != "" {
			t.Errorf("without the right to %s: %s", right, made)
		}
	}
	for _, right := range []string{"list secrets", "watch secrets", "list resourcesyncrules", "watch resourcesyncrules"} {
		s, own := serve(t)
		s.Deny(right)
		if _, err := connect(t.Context(), own, secretOptions()); err == nil || !strings.Contains(err.Error(), "you may not "+right) {
			t.Errorf("without the right to %s there: %v", right, err)
		}
	}
}

// What a run has made it deletes by the UID, without the right to read it; it looks only where nobody knows whether it was made.
func TestOwnIsNotRead(t *testing.T) {
	t.Parallel()
	var asked []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var options struct{ Preconditions struct{ UID string } }
		_ = json.NewDecoder(r.Body).Decode(&options)
		asked = append(asked, r.Method+" "+options.Preconditions.UID)
		w.WriteHeader(http.StatusForbidden)
	}))
	defer s.Close()
	k := &canary{own: clientOf(t, s.URL), name: namePrefix + "x", namespace: "ns", kind: kindSecret}
	for _, m := range []made{{uid: "u"}, {doubtful: true}, {}} {
		if err := k.remove(t.Context(), k.objects(kindSecret), m); (err == nil) != (m == made{}) {
			t.Errorf("%v: %v", m, err)
		}
	}
	if got := strings.Join(asked, ", "); got != "DELETE u, GET " {
		t.Errorf("asked for %q", got)
	}
	if k.create(t.Context()) == nil || k.object.doubtful {
		t.Error("what an API server refuses may have been made")
	}
	s.Close()
	if k.create(t.Context()) == nil || !k.object.doubtful {
		t.Error("what an API server has not answered cannot have been made")
	}
}

// A rule says until when it may be there: for all of the time that the run may take from then, with every request.
func TestUntil(t *testing.T) {
	t.Parallel()
	_, own := serve(t)
	o := secretOptions()
	k, err := newCanary(t.Context(), own, o)
	if err != nil {
		t.Fatal(err)
	}
	if least := 4*(own.Config.Timeout+o.Timeout) + cleanWithin; own.Config.Timeout == 0 || k.within < least {
		t.Errorf("a run may take %s, and %s is left to it", least, k.within)
	}
	k.now, k.read = time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC), time.Now().Add(-time.Hour)
	if least := k.now.Add(time.Hour + k.within); k.until().Before(least) || k.until().After(least.Add(time.Hour)) {
		t.Errorf("an hour later it is until %s, not %s", k.until(), least)
	}
}

// An API server that does not know targets refuses the rule, which would be for all clusters without them.
func TestUnknownFieldsAreRefused(t *testing.T) {
	t.Parallel()
	queries := map[string]int{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		queries[r.URL.Query().Get("dryRun")+" "+r.URL.Query().Get("fieldValidation")]++
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.Copy(w, r.Body)
	}))
	defer s.Close()
	k := &canary{own: clientOf(t, s.URL), name: namePrefix + "x", namespace: "ns", kind: kindSecret}
	for _, do := range []func(context.Context) error{
		k.create, func(ctx context.Context) error { return k.makeRule(ctx, nil) }, func(ctx context.Context) error { return k.tryRule(ctx, nil) },
	} {
		if err := do(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if queries[" Strict"] != 2 || queries["All Strict"] != 1 {
		t.Errorf("asked for %v", queries)
	}
}
