// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/roster-mesh/roster/agent/agenttest"
	"github.com/roster-mesh/roster/kube"
)

// contested is a store at an API server at which somebody else is quicker a few times.
type contested struct {
	*Store
	api       *agenttest.APIServer
	conflicts atomic.Int32 // updates that are refused from now on
}

func newContested(t *testing.T) *contested {
	t.Helper()
	c := &contested{}
	c.api, _ = agenttest.NewAPIServer(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPut && c.conflicts.Add(-1) >= 0 {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusConflict)
			_ = json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure", Reason: metav1.StatusReasonConflict, Code: 409})
			return
		}
		c.api.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	client, err := kube.NewClient(&rest.Config{Host: server.URL, QPS: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	c.Store = New(client, "p")
	return c
}

// has compares what a Secret holds.
func (c *contested) has(t *testing.T, name string, want map[string]string) {
	t.Helper()
	secret, err := c.Read(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for key, value := range secret.Data {
		got[key] = string(value)
	}
	if !maps.Equal(got, want) {
		t.Errorf("%s holds %v, want %v", name, got, want)
	}
}

// writes is how many there were since it was asked last.
func (c *contested) writes() func() int {
	before, _ := c.api.Writes()
	return func() int {
		now, _ := c.api.Writes()
		defer func() { before = now }()
		return now - before
	}
}

// TestReplace: a Secret that is not there is created with the agent's label, and one that is gets exactly this data, in a
// write only where that changes it.
func TestReplace(t *testing.T) {
	c := newContested(t)
	writes := c.writes()
	for _, step := range []struct {
		data   map[string]string
		writes int
	}{
		{map[string]string{"a": "1", "b": "2"}, 1},
		{map[string]string{"a": "1", "b": "2"}, 0},
		{map[string]string{"a": "2"}, 1},
	} {
		data := map[string][]byte{}
		for key, value := range step.data {
			data[key] = []byte(value)
		}
		c.conflicts.Store(2)
		if err := c.Replace(t.Context(), "s", data); err != nil {
			t.Fatal(err)
		}
		if n := writes(); n != step.writes {
			t.Errorf("%v: %d writes", step.data, n)
		}
		c.has(t, "s", step.data)
	}
	if secret, err := c.Read(t.Context(), "s"); err != nil || secret.Labels["app.kubernetes.io/managed-by"] != "roster-agent" {
		t.Errorf("labels %v: %v", secret.Labels, err)
	}
}

// TestApplyKeepsWhatItDoesNotOwn: of a Secret that is there, only the data is replaced.
func TestApplyKeepsWhatItDoesNotOwn(t *testing.T) {
	c := newContested(t)
	c.api.SetObject("s", []byte(`{"apiVersion":"v1","kind":"Secret","type":"theirs","metadata":{"name":"s","namespace":"p","labels":{"a":"b"}}}`))
	want := c.NewSecret("s", map[string][]byte{"k": []byte("v")})
	if err := Apply(t.Context(), c.client, want); err != nil {
		t.Fatal(err)
	}
	c.has(t, "s", map[string]string{"k": "v"})
	if now, err := c.Read(t.Context(), "s"); err != nil || now.Type != "theirs" || now.Labels["a"] != "b" {
		t.Errorf("%+v: %v", now, err)
	}
}

// TestChange: what somebody else changed meanwhile is looked at again; an error of who alters, or nothing to do, is no
// write; and what is not there is not made.
func TestChange(t *testing.T) {
	c := newContested(t)
	if err := c.Change(t.Context(), "s", nil); !apierrors.IsNotFound(err) || c.api.Object("s") != nil {
		t.Errorf("there is none to change: %v", err)
	}
	c.api.SetObject("s", []byte(`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s","namespace":"p"}}`))
	writes, looks := c.writes(), 0
	c.conflicts.Store(2)
	err := c.Change(t.Context(), "s", func(secret *kube.Secret) (bool, error) {
		looks++
		secret.Data["k"] = []byte("v")
		return true, nil
	})
	if n := writes(); err != nil || looks != 3 || n != 1 {
		t.Errorf("%d looks, %d writes: %v", looks, n, err)
	}
	refused := errors.New("not like this")
	for _, want := range []error{refused, nil} {
		err := c.Change(t.Context(), "s", func(secret *kube.Secret) (bool, error) {
			secret.Data["k"] = []byte("w")
			return want != nil, want
		})
		if n := writes(); !errors.Is(err, want) || n != 0 {
			t.Errorf("%d writes: %v", n, err)
		}
	}
	c.has(t, "s", map[string]string{"k": "v"})
	c.conflicts.Store(100)
	if err := c.SetKey(t.Context(), "s", "k", []byte("w")); !apierrors.IsConflict(err) {
		t.Errorf("a conflict that does not end is %v", err)
	}
}

// TestSetKey: one key changes and the others stay; nil takes it out; the same value is no write.
func TestSetKey(t *testing.T) {
	c := newContested(t)
	if err := c.Replace(t.Context(), "s", map[string][]byte{"other": []byte("x")}); err != nil {
		t.Fatal(err)
	}
	writes := c.writes()
	for _, step := range []struct {
		value  []byte
		want   map[string]string
		writes int
	}{
		{nil, map[string]string{"other": "x"}, 0},
		{[]byte("1"), map[string]string{"other": "x", "k": "1"}, 1},
		{[]byte("1"), map[string]string{"other": "x", "k": "1"}, 0},
		{nil, map[string]string{"other": "x"}, 1},
	} {
		if err := c.SetKey(t.Context(), "s", "k", step.value); err != nil {
			t.Fatal(err)
		}
		if n := writes(); n != step.writes {
			t.Errorf("%q: %d writes", step.value, n)
		}
		c.has(t, "s", step.want)
	}
}

// TestDelete says whether there was one.
func TestDelete(t *testing.T) {
	c := newContested(t)
	if err := c.Replace(t.Context(), "s", nil); err != nil {
		t.Fatal(err)
	}
	c.api.FailDeletes(1)
	if _, err := c.Delete(t.Context(), "s"); err == nil {
		t.Error("a delete that failed is none")
	}
	for _, want := range []bool{true, false} {
		if found, err := c.Delete(t.Context(), "s"); err != nil || found != want {
			t.Errorf("found %t, want %t: %v", found, want, err)
		}
	}
}
