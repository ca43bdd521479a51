// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"context"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/apitest"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/cli"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/clusters"
)

// What changes on the API server is shown, and the watches end with the context.
func TestWatchStatus(t *testing.T) {
	t.Parallel()
	s := apitest.New()
	defer s.Close()
	cluster := func(name, id string) {
		s.Put(apitest.Parse(t, "{apiVersion: clusterregistry.k8s.cisco.com/v1alpha1, kind: Cluster, metadata: {name: "+name+"}, spec: {clusterID: "+id+"}}"))
	}
	cluster("alpha", "id-alpha")
	c, err := clusters.New("east", &rest.Config{Host: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	v, err := read(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	shown, done := make(chan groupView, 100), make(chan error, 1)
	go func() {
		_, err := watchStatus(ctx, c, v, func(v groupView) error { shown <- v; return nil }, 0)
		done <- err
	}()
	await := func(what string, is func(groupView) bool) {
		t.Helper()
		deadline := time.After(time.Minute)
		for {
			select {
			case v := <-shown:
				if is(v) {
					return
				}
			case <-deadline:
				t.Fatal("not shown: " + what)
			}
		}
	}
	await("alpha", func(v groupView) bool { return len(v.Members) == 1 })
	cluster("beta", "id-beta")
	await("beta", func(v groupView) bool { return len(v.Members) == 2 && v.Members[1].Name == "beta" })
	s.Put(apitest.Parse(t, "{apiVersion: clusterregistry.k8s.cisco.com/v1alpha1, kind: ResourceSyncRule, metadata: {name: web}}"))
	await("the rule", func(v groupView) bool { return len(v.Unready) == 1 && v.Unready[0].Name == "web" })
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// It is waited until the group is healthy, and no longer.
func TestWaitHealthy(t *testing.T) {
	t.Parallel()
	s := apitest.New()
	defer s.Close()
	cluster := func(ready string) {
		s.Put(apitest.Parse(t, `{apiVersion: clusterregistry.k8s.cisco.com/v1alpha1, kind: Cluster, metadata: {name: alpha}, spec: {clusterID: id-alpha}, status: {type: Local, conditions: [
{type: Member, status: "True", reason: Local, message: ""}, {type: ClustersSynced, status: "True", reason: Synced, message: ""}, {type: Ready, status: "`+ready+`", reason: Problem, message: it went back}]}}`))
	}
	cluster("False")
	c, err := clusters.New("east", &rest.Config{Host: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	v, err := read(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	said := writer(make(chan string, 10))
	out := &cli.Output{Stdout: said, Format: "table"}
	go func() {
		if text := <-said; !strings.Contains(text, "cluster alpha: Ready=False (Problem): it went back") {
			t.Errorf("it waits for %q", text)
		}
		cluster("True")
	}()
	if v, late, err := waitHealthy(t.Context(), c, v, out, time.Minute); err != nil || late != nil || v.Health != clusters.Healthy {
		t.Errorf("%s, %v, %v", v.Health, late, err)
	}
}

type writer chan string

func (w writer) Write(p []byte) (int, error) {
	w <- string(p)
	return len(p), nil
}
