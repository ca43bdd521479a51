// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/apitest"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/clusters"
)

const (
	rulesPath   = "/apis/clusterregistry.k8s.cisco.com/v1alpha1/resourcesyncrules/"
	secretsPath = "/api/v1/namespaces/ns/secrets/"
)

// seed puts a rule and its Secret there.
func seed(t *testing.T, s *apitest.Server, name, label, until, more string, secretLabel string) {
	t.Helper()
	s.Put(apitest.Parse(t, fmt.Sprintf(`
apiVersion: clusterregistry.k8s.cisco.com/v1alpha1
kind: ResourceSyncRule
metadata:
  name: %[1]s
  labels: {%[2]s}
  annotations: {local.cluster-registry.k8s.cisco.com/verify-until: %[3]q%[4]s}
spec: {groupVersionKind: {version: v1, kind: Secret}, rules: [{match: [{objectKey: {name: %[1]s, namespace: ns}}]}]}
`, name, label, until, more)))
	s.Put(apitest.Parse(t, fmt.Sprintf("apiVersion: v1\nkind: Secret\nmetadata: {name: %s, namespace: ns, labels: {%s}}\n", name, secretLabel)))
}

// What runs have left is deleted when its time is over, and nothing else ever is: not what a person made or labelled by chance, not
// what came from another cluster, and not a Secret of a person that has a canary's name.
func TestSweep(t *testing.T) {
	t.Parallel()
	const mark = labelCanary + ": canary"
	now := time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC)
	const past, future = "2026-01-31T23:59:59Z", "2026-02-01T00:00:01Z"
	for _, c := range []struct {
		all, dryRun   bool
		removed, left []string
	}{
		{false, false, []string{"roster-verify-old"}, []string{"copied", "new", "odd", "plain"}},
		{false, true, []string{"roster-verify-old"}, []string{"copied", "new", "odd", "old", "plain"}},
		{true, false, []string{"roster-verify-new", "roster-verify-odd", "roster-verify-old"}, []string{"copied", "plain"}},
	} {
		s := apitest.New()
		defer s.Close()
		seed(t, s, "roster-verify-old", mark, past, "", mark)
		seed(t, s, "roster-verify-new", mark, future, "", mark)
		seed(t, s, "roster-verify-odd", mark, "soon", "", mark)
		seed(t, s, "roster-verify-copied", mark, past, ", cluster-registry.k8s.cisco.com/resource-owner-cluster-id: other", mark)
		seed(t, s, "roster-verify-plain", "", past, "", "")
		seed(t, s, "of-a-person", mark, past, "", mark)
		own, err := clusters.New("east", &rest.Config{Host: s.URL})
		if err != nil {
			t.Fatal(err)
		}
		removed, err := (&canary{own: own, now: now}).sweep(t.Context(), c.all, c.dryRun)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c.removed, removed); diff != "" {
			t.Errorf("all %t, on trial %t (-want +got):\n%s", c.all, c.dryRun, diff)
		}
		var left []string
		for _, name := range []string{"copied", "new", "odd", "old", "plain"} {
			rule, secret := s.Object(rulesPath+namePrefix+name), s.Object(secretsPath+namePrefix+name)
			if (rule == nil) != (secret == nil) {
				t.Errorf("of %s, one of rule and Secret is there", name)
			}
			if rule != nil {
				left = append(left, name)
			}
		}
		if diff := cmp.Diff(c.left, left); diff != "" {
			t.Errorf("all %t, on trial %t: left (-want +got):\n%s", c.all, c.dryRun, diff)
		}
		if s.Object(rulesPath+"of-a-person") == nil || s.Object(secretsPath+"of-a-person") == nil {
			t.Error("what has another name is deleted")
		}
	}

	s := apitest.New()
	defer s.Close()
	seed(t, s, "roster-verify-taken", mark, past, "", "")
	for _, other := range []string{"a", "z"} { // in whatever order they come
		seed(t, s, namePrefix+other, mark, past, "", mark)
	}
	own, err := clusters.New("east", &rest.Config{Host: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	removed, err := (&canary{own: own, now: now}).sweep(t.Context(), true, false)
	if err == nil || !strings.Contains(err.Error(), "somebody else has made it") || len(removed) != 2 {
		t.Errorf("a Secret of a person: %v, and %v are deleted", err, removed)
	}
	if s.Object(rulesPath+"roster-verify-taken") == nil || s.Object(secretsPath+"roster-verify-taken") == nil {
		t.Error("a Secret of a person, or the rule that leads to it, is deleted")
	}
}
