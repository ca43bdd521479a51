// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/apitest"
	"github.com/roster-mesh/roster/kube"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/syncrules"
)

// Another cluster's answer is cut off where it is too large, and a list stops being read.
func TestPeerIsBounded(t *testing.T) {
	t.Parallel()
	if _, err := (&maxReader{strings.NewReader("abc"), 2, 2}).Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if _, err := out.ReadFrom(&maxReader{strings.NewReader("abc"), 2, 2}); err == nil || out.String() != "ab" {
		t.Errorf("read %q, %v", out.String(), err)
	}
	s := apitest.New()
	defer s.Close()
	for i := range MaxListed + pageSize + 1 {
		s.Put(&unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": fmt.Sprint("x", i), "namespace": "shop"},
		}})
	}
	c, err := New("s", &rest.Config{Host: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	gvk := apitest.Parse(t, "{apiVersion: v1, kind: ConfigMap}").GroupVersionKind()
	got, whole, err := NewReader(c).List(t.Context(), gvk, syncrules.Scope{Namespace: "shop"})
	if err != nil || whole || len(got) != MaxListed {
		t.Errorf("listed %d, whole %v, %v", len(got), whole, err)
	}
}

// With somebody else's token nothing of the caller's own credential is sent.
func TestToken(t *testing.T) {
	t.Parallel()
	sent := make(chan http.Header, 1)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sent <- r.Header
		http.NotFound(w, r)
	}))
	defer s.Close()
	at := Access{Kubeconfig: filepath.Join(t.TempDir(), "config"), As: "root", Token: "theirs"}
	text := fmt.Sprintf("{current-context: a, clusters: [{name: c, cluster: {server: %q}}], users: [{name: u, user: {token: own, as: boss}}], contexts: [{name: a, context: {cluster: c, user: u}}]}", s.URL)
	if err := os.WriteFile(at.Kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := at.Open()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.ClusterID(t.Context()); err == nil {
		t.Error("the cluster has an ID")
	}
	if h := <-sent; h.Get("Authorization") != "Bearer theirs" || h.Get("Impersonate-User") != "" {
		t.Errorf("it sends %v", h)
	}
}

// A kind is found by every name that kubectl takes, and the core comes first.
func TestParseKind(t *testing.T) {
	t.Parallel()
	s := apitest.New()
	defer s.Close()
	c, err := New("s", &rest.Config{Host: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	r := NewReader(c)
	for arg, want := range map[string]string{
		"secret": "/v1, Kind=Secret", "Secrets": "/v1, Kind=Secret", "cm": "/v1, Kind=ConfigMap", "configmaps.v1.": "/v1, Kind=ConfigMap",
		"clusters": "clusterregistry.k8s.cisco.com/v1alpha1, Kind=Cluster", "rsr": "clusterregistry.k8s.cisco.com/v1alpha1, Kind=ResourceSyncRule",
		"cluster.clusterregistry":                         "clusterregistry.k8s.cisco.com/v1alpha1, Kind=Cluster",
		"clusters.v1alpha1.clusterregistry.k8s.cisco.com": "clusterregistry.k8s.cisco.com/v1alpha1, Kind=Cluster",
		"clusterfeatures.clusterregistry.k8s.cisco.com":   "clusterregistry.k8s.cisco.com/v1alpha1, Kind=ClusterFeature",
	} {
		if got, err := r.ParseKind(t.Context(), arg); err != nil || got.String() != want {
			t.Errorf("%s: %s, %v", arg, got, err)
		}
	}
	for _, arg := range []string{"thing", "secrets.apps", "secrets.v2.", "pods/log"} {
		if got, err := r.ParseKind(t.Context(), arg); err == nil || !strings.Contains(err.Error(), "has no kind") {
			t.Errorf("%s: %s, %v", arg, got, err)
		}
	}
	for gvk, want := range map[schema.GroupVersionKind]bool{
		{Version: "v1", Kind: "Secret"}: true, {Version: "v1", Kind: "Namespace"}: false,
	} {
		if got, err := r.Namespaced(gvk); err != nil || got != want {
			t.Errorf("%s namespaced: %v, %v", gvk, got, err)
		}
	}
	for _, gvk := range []schema.GroupVersionKind{{Version: "v1", Kind: "Thing"}, {Group: "example.com", Version: "v1", Kind: "Thing"}} {
		if _, err := r.Namespaced(gvk); !errors.Is(err, kube.ErrKindUnknown) {
			t.Errorf("%s: %v", gvk, err)
		}
	}
}

// A cluster is Unknown where nobody has looked, and is as bad as its worst condition.
func TestMemberHealth(t *testing.T) {
	t.Parallel()
	condition := func(kind string, status metav1.ConditionStatus, reason string) metav1.Condition {
		return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: "why"}
	}
	fine := []metav1.Condition{
		condition(v1alpha1.ConditionReady, "True", "X"), condition(v1alpha1.ConditionMember, "True", "X"), condition(v1alpha1.ConditionClustersSynced, "True", "X"),
	}
	with := func(changed metav1.Condition) *v1alpha1.Cluster {
		c := &v1alpha1.Cluster{}
		for _, one := range fine {
			if one.Type == changed.Type {
				one = changed
			}
			c.Status.Conditions = append(c.Status.Conditions, one)
		}
		return c
	}
	disabled := with(condition(v1alpha1.ConditionReady, "False", "X"))
	disabled.Status.State = v1alpha1.ClusterStateDisabled
	local := with(condition(v1alpha1.ConditionClustersSynced, "False", "X"))
	local.Status.Type = v1alpha1.ClusterTypeLocal
	for name, test := range map[string]struct {
		cluster *v1alpha1.Cluster
		want    Health
	}{
		"fine":                  {with(metav1.Condition{}), Healthy},
		"nobody has looked":     {&v1alpha1.Cluster{}, Unknown},
		"not ready":             {with(condition(v1alpha1.ConditionReady, "False", "X")), Unhealthy},
		"settles":               {with(condition(v1alpha1.ConditionReady, "False", "Connecting")), Unknown},
		"disabled":              {disabled, Healthy},
		"of itself, peers' lag": {local, Healthy},
	} {
		if got, message := MemberHealth(test.cluster); got != test.want || got != Healthy && message == "" {
			t.Errorf("%s: %s, %q", name, got, message)
		}
	}
}
