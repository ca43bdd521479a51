// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/apitest"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/clusters"
)

// await looks at the view after each change until it is as wanted.
func await(t *testing.T, f *Follower, what string, is func(View) bool) {
	t.Helper()
	deadline := time.After(time.Minute)
	for {
		v, err := f.View()
		if err != nil {
			t.Fatal(err)
		}
		if is(v) {
			return
		}
		select {
		case <-f.Changed():
		case <-deadline:
			t.Fatalf("not seen: %s; the last view is %+v", what, v)
		}
	}
}

// One kind that may not be read is told, though the other is, and what was seen stays when the API server goes.
func TestFollow(t *testing.T) {
	t.Parallel()
	s := apitest.New()
	s.Put(apitest.Parse(t, "{apiVersion: clusterregistry.k8s.cisco.com/v1alpha1, kind: Cluster, metadata: {name: alpha}, spec: {clusterID: id-alpha}}"))
	s.Set("resourcesyncrules", "")
	c, err := clusters.New("east", &rest.Config{Host: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	f, err := Follow(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Stop()
	alpha := func(v View) bool { return len(v.Clusters) == 1 && v.Clusters[0].Spec.ClusterID == "id-alpha" }
	await(t, f, "that rules may not be read", func(v View) bool { return alpha(v) && strings.Contains(v.Problem, "403") && !v.Complete })
	s.Set("", "")
	await(t, f, "both kinds", func(v View) bool { return alpha(v) && v.Problem == "" && v.Complete })
	s.CloseClientConnections()
	if err := s.Listener.Close(); err != nil {
		t.Fatal(err)
	}
	await(t, f, "that the API server is away", func(v View) bool { return alpha(v) && v.Problem != "" && v.Complete })
}

// An object that is not as the API type is told by its name.
func TestViewNamesWhatItCannotRead(t *testing.T) {
	t.Parallel()
	s := apitest.New()
	t.Cleanup(s.Close)
	s.Put(apitest.Parse(t, "{apiVersion: clusterregistry.k8s.cisco.com/v1alpha1, kind: Cluster, metadata: {name: odd}, spec: [1, 2]}"))
	c, err := clusters.New("east", &rest.Config{Host: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	f, err := Follow(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Stop()
	f.Await(t.Context())
	if _, err := f.View(); err == nil || !strings.Contains(err.Error(), "Cluster odd") {
		t.Errorf("error %v", err)
	}
}
