// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package profiles

import (
	"encoding/pem"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"pgregory.net/rapid"

	"github.com/roster-mesh/roster/agent/agenttest"
	"github.com/roster-mesh/roster/agent/directory"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// ca is a certificate of some CA.
func ca(t *testing.T) []byte {
	t.Helper()
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
}

// reached is a Cluster whose condition Ready is as given, "" for none.
func reached(status metav1.ConditionStatus, reason string) *v1alpha1.Cluster {
	c := agenttest.Cluster("beta", agenttest.IDB)
	if status != "" {
		c.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: status, Reason: reason, Message: "because"}}
	}
	return c
}

func TestHealth(t *testing.T) {
	for name, test := range map[string]struct {
		status metav1.ConditionStatus
		reason string
		own    bool
		want   metav1.ConditionStatus
	}{
		"ready":             {"True", "Ready", false, "True"},
		"unreachable":       {"False", "APIUnreachable", false, "False"},
		"may be":            {"Unknown", "APIUnreachable", false, "Unknown"},
		"its agent alone":   {"False", "AgentUnreachable", false, "Unknown"},
		"disabled here":     {"False", "Disabled", false, "Unknown"},
		"no credential":     {"False", "MissingAuthInfo", false, "Unknown"},
		"nothing known":     {"", "", false, "Unknown"},
		"this one":          {"True", "Running", true, "True"},
		"this, one problem": {"False", "Problem", true, "True"},
	} {
		if got := healthOf(reached(test.status, test.reason), test.own); got.Status != test.want || got.Reason == "" {
			t.Errorf("%s: %+v, want %s", name, got, test.want)
		}
	}
}

func TestProperties(t *testing.T) {
	c := reached("True", "Ready")
	c.Status.Provider, c.Status.Distribution = "kind", strings.Repeat("x", maxValue+1)
	c.Status.Locality = &v1alpha1.Locality{Region: "r", Zones: []string{"a", "b", strings.Repeat("z", maxValue)}}
	want := []profileProperty{
		{Name: propertyCluster, Value: agenttest.IDB},
		{Name: propertyClusterSet, Value: "set"},
		{Name: "provider.cluster-registry.k8s.cisco.com", Value: "kind"},
		{Name: "region.cluster-registry.k8s.cisco.com", Value: "r"},
		{Name: "zones.cluster-registry.k8s.cisco.com", Value: "a,b"},
	}
	if diff := cmp.Diff(want, propertiesOf(c, "set")); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if got := propertiesOf(agenttest.Cluster("beta", agenttest.IDB), ""); len(got) != 1 {
		t.Errorf("of a cluster that is not described: %v", got)
	}
}

func TestProvider(t *testing.T) {
	certificate := ca(t)
	at := func(network, server string, bundle []byte) v1alpha1.KubernetesAPIEndpoint {
		return v1alpha1.KubernetesAPIEndpoint{ClientNetwork: network, ServerAddress: server, CABundle: bundle}
	}
	secret := v1alpha1.NamespacedName{Name: "peer-b", Namespace: "private"}
	for name, test := range map[string]struct {
		endpoints []v1alpha1.KubernetesAPIEndpoint
		secret    v1alpha1.NamespacedName
		want      string // the server; "" for no provider
	}{
		"an address":     {[]v1alpha1.KubernetesAPIEndpoint{at("", "b.example.com:6443", certificate)}, secret, "https://b.example.com:6443"},
		"of the network": {[]v1alpha1.KubernetesAPIEndpoint{at("", "b.example.com", certificate), at("lab", "10.0.0.1:6443", certificate)}, secret, "https://10.0.0.1:6443"},
		"no address":     {nil, secret, ""},
		"no CA":          {[]v1alpha1.KubernetesAPIEndpoint{at("", "b.example.com", nil)}, secret, ""},
		"no Secret":      {[]v1alpha1.KubernetesAPIEndpoint{at("", "b.example.com", certificate)}, v1alpha1.NamespacedName{}, ""},
		"hostile":        {[]v1alpha1.KubernetesAPIEndpoint{at("", "http://u:p@b/?x", certificate)}, secret, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := providerOf(directory.Route{Endpoints: test.endpoints, Secret: test.secret}, "lab")
			if test.want == "" {
				if got != nil {
					t.Fatalf("got %+v", got)
				}
				return
			}
			want := []any{map[string]any{"name": "client.authentication.k8s.io/exec", "extension": map[string]any{
				"name": "peer-b", "namespace": "private", "key": "kubeconfig",
			}}}
			if got == nil || got.Name != "kubeconfig-secretreader" || got.Cluster["server"] != test.want {
				t.Fatalf("got %+v, want server %s", got, test.want)
			}
			if diff := cmp.Diff(want, got.Cluster["extensions"]); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// Whatever a profile says: what others wrote is kept, ours is there once, and a second look changes nothing, however much
// later, also after the way through an API server.
func TestStatusLaws(t *testing.T) {
	certificate := ca(t)
	rapid.Check(t, func(t *rapid.T) {
		c := reached(rapid.SampledFrom([]metav1.ConditionStatus{"", "True", "False", "Unknown"}).Draw(t, "ready"), rapid.SampledFrom([]string{"Ready", "APIUnreachable", "Disabled"}).Draw(t, "reason"))
		c.Status.Version = rapid.SampledFrom([]string{"", "v1.36.3"}).Draw(t, "version")
		c.Status.Provider = rapid.SampledFrom([]string{"", "kind", "amazon"}).Draw(t, "provider")
		var route *directory.Route
		if rapid.Bool().Draw(t, "route known") {
			route = &directory.Route{}
		}
		if route != nil && rapid.Bool().Draw(t, "address") {
			route.Endpoints = []v1alpha1.KubernetesAPIEndpoint{{ServerAddress: "b.example.com", CABundle: certificate}}
			route.Secret = v1alpha1.NamespacedName{Name: "s", Namespace: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "namespace")}
		}
		have := drawStatus(t)
		start := time.Unix(1000, 0)
		first := statusOf(c, facts{clusterSet: rapid.SampledFrom([]string{"", "set"}).Draw(t, "set"), route: route, now: start}, have, 1)
		set := ""
		for _, p := range first.Properties {
			if p.Name == propertyClusterSet {
				set = p.Value
			}
		}
		again := statusOf(c, facts{clusterSet: set, route: route, now: start.Add(time.Hour)}, throughJSON(t, first), 1)
		if diff := cmp.Diff(first, again); diff != "" {
			t.Fatalf("a second look changes:\n%s", diff)
		}
		if diff := cmp.Diff(foreign(have), foreign(first)); diff != "" {
			t.Fatalf("what others wrote changes:\n%s", diff)
		}
		seen := map[string]bool{}
		for _, name := range namesIn(first) {
			if seen[name] {
				t.Fatalf("%s is there twice", name)
			}
			seen[name] = true
		}
		if !seen["condition ControlPlaneHealthy"] || !seen["property cluster.clusterset.k8s.io"] {
			t.Fatalf("something is missing: %v", seen)
		}
	})
}

// drawStatus is the status of a profile as others may leave it; names are distinct, as an API server sees to.
func drawStatus(t *rapid.T) (s profileStatus) {
	for _, name := range []string{"Joined", conditionHealthy} {
		if rapid.Bool().Draw(t, name) {
			s.Conditions = append(s.Conditions, metav1.Condition{Type: name, Status: "True", Reason: "Other", LastTransitionTime: metav1.Unix(10, 0)})
		}
	}
	for _, name := range []string{"zone.example.com", propertyClusterSet, "provider" + suffix, propertyCluster} {
		if rapid.Bool().Draw(t, name) {
			s.Properties = append(s.Properties, profileProperty{Name: name, Value: rapid.SampledFrom([]string{"set", "kind", "x"}).Draw(t, "value")})
		}
	}
	for _, name := range []string{"cloud", providerName} {
		if rapid.Bool().Draw(t, name) {
			s.AccessProviders = append(s.AccessProviders, accessProvider{Name: name, Cluster: map[string]any{"server": "https://other", "new-field": true}})
		}
	}
	return s
}

// foreign is what others wrote in a status.
func foreign(s profileStatus) (out profileStatus) {
	for _, c := range s.Conditions {
		if c.Type != conditionHealthy {
			out.Conditions = append(out.Conditions, c)
		}
	}
	out.Properties = mergeProperties(s.Properties, nil)
	out.AccessProviders = mergeProviders(s.AccessProviders, nil)
	return out
}

func namesIn(s profileStatus) (names []string) {
	for _, c := range s.Conditions {
		names = append(names, "condition "+c.Type)
	}
	for _, p := range s.Properties {
		names = append(names, "property "+p.Name)
	}
	for _, a := range s.AccessProviders {
		names = append(names, "provider "+a.Name)
	}
	return names
}

// throughJSON is what an API server answers.
func throughJSON(t *rapid.T, s profileStatus) (out profileStatus) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&s)
	if err == nil {
		err = runtime.DefaultUnstructuredConverter.FromUnstructured(content, &out)
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// agentEndpoint is an address as agents publish it.
func agentEndpoint(t *testing.T) v1alpha1.KubernetesAPIEndpoint {
	t.Helper()
	return v1alpha1.KubernetesAPIEndpoint{ServerAddress: "b.example.com:6443", CABundle: ca(t)}
}
