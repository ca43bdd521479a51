// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/apitest"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/cli"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/clusters"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/fleet"
)

// A member decides in its own view what a rule selects. With the user's own rights nothing is read for that but by the rule
// that the user's own cluster has too, and no server gets what was read.
func TestViewOfAnotherMember(t *testing.T) {
	t.Parallel()
	alpha, beta := apitest.New(), apitest.New()
	defer alpha.Close()
	var trials atomic.Int32
	watched := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			trials.Add(1)
		}
		beta.Serve(w, r)
	}))
	defer watched.Close()
	for name, s := range map[string]*apitest.Server{"alpha": alpha, "beta": beta} {
		s.Put(apitest.Parse(t, "{apiVersion: v1, kind: Namespace, metadata: {name: kube-system, uid: id-"+name+"}}"))
		for _, member := range []string{"alpha", "beta"} {
			s.Put(apitest.Parse(t, fmt.Sprintf("{apiVersion: clusterregistry.k8s.cisco.com/v1alpha1, kind: Cluster, metadata: {name: %s}, spec: {clusterID: id-%[1]s}}", member)))
		}
	}
	rule := func(s *apitest.Server, namespace string) {
		s.Put(apitest.Parse(t, "{apiVersion: clusterregistry.k8s.cisco.com/v1alpha1, kind: ResourceSyncRule, metadata: {name: r}, spec: {groupVersionKind: {version: v1, kind: Secret}, rules: [{match: [{namespaces: ["+namespace+"]}]}]}}"))
	}
	alpha.Put(apitest.Parse(t, "{apiVersion: v1, kind: Secret, metadata: {name: s, namespace: shop, uid: u}, data: {k: dg==}}"))
	rule(alpha, "shop")
	at := clusters.Access{Kubeconfig: t.TempDir() + "/kubeconfig"}
	text := fmt.Sprintf("{current-context: a, clusters: [{name: a, cluster: {server: %q}}, {name: b, cluster: {server: %q}}], contexts: [{name: a, context: {cluster: a}}, {name: b, context: {cluster: b}}]}", alpha.URL, watched.URL)
	if err := os.WriteFile(at.Kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	ask := func() string {
		out := &strings.Builder{}
		o := Options{
			Access: at, Subject: []string{"r"}, Network: "default", Limit: 9, PeerContexts: map[string]string{"beta": "b"},
			Fleet: &fleet.Group{Access: at, Network: "default", Timeout: time.Minute},
		}
		err := o.Run(t.Context(), &cli.Output{Stdout: out, Stderr: out, Format: "json"})
		return fmt.Sprint(out.String(), err)
	}
	rule(beta, "shop")
	if text := ask(); !strings.Contains(text, `"diffNote": "no dry run was asked for"`) || strings.Contains(text, "your own rights") {
		t.Errorf("by the same rule:\n%s", text)
	}
	rule(beta, "shop, other")
	if text := ask(); strings.Contains(text, `"name": "s"`) || !strings.Contains(text, "it would be read with your own rights, by a rule that your own cluster does not have so") {
		t.Errorf("by a rule of its own:\n%s", text)
	}
	if n := trials.Load(); n > 0 {
		t.Errorf("%d writes on trial", n)
	}
	_, known, _, err := reachAll(t.Context(), &fleet.Group{Access: at, Network: "default", Timeout: time.Minute, Named: map[string]string{"beta": "b"}})
	if err != nil {
		t.Fatal(err)
	}
	beta.Put(apitest.Parse(t, "{apiVersion: v1, kind: Namespace, metadata: {name: kube-system, uid: id-alpha}}"))
	if _, err := (&reach{member: known["id-beta"].member, known: known}).clusters(t.Context()); err == nil {
		t.Error("the view of another cluster than was asked")
	}
}
