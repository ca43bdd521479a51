// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roster-mesh/roster/agent/agenttest"
	"github.com/roster-mesh/roster/agent/payload"
	"github.com/roster-mesh/roster/kube"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// newOwn is the keeper of the object of cluster IDA.
func newOwn(o OwnOptions) *Own {
	o.ClusterID, o.Key = agenttest.IDA, agenttest.PublicKey(agenttest.IDA)
	o.MeshEndpoints = func([]string) []string { return []string{"a:7946"} }
	o.Published = func() (*payload.Cluster, bool) { return nil, false }
	return NewOwn(o)
}

// Labels of --cluster-labels are set, also again, and all others stay.
func TestLabelsAreSet(t *testing.T) {
	c := &v1alpha1.Cluster{}
	if newOwn(OwnOptions{}).fill(c); c.Labels != nil {
		t.Errorf("without any: %v", c.Labels)
	}
	own := newOwn(OwnOptions{Labels: map[string]string{"tier": "edge", "example.com/zone": ""}})
	own.fill(c)
	want := map[string]string{"tier": "edge", "example.com/zone": ""}
	if diff := cmp.Diff(want, c.Labels); diff != "" {
		t.Error(diff)
	}
	c.Labels = map[string]string{"tier": "core", "team": "shop"}
	own.fill(c)
	if diff := cmp.Diff(map[string]string{"tier": "edge", "team": "shop", "example.com/zone": ""}, c.Labels); diff != "" {
		t.Error(diff)
	}
}

// What a person has put into the object stays, and what the agent answers for is brought up to date.
func TestFillKeepsWhatIsTheUsers(t *testing.T) {
	own := newOwn(OwnOptions{Namespace: "n", ManageSecret: true, Server: kube.Server{Address: "https://a:6443"}})
	c := agenttest.Cluster("a", agenttest.IDB)
	c.Annotations = map[string]string{"note": "kept", v1alpha1.AnnotationLeave: "another key"}
	c.Spec.KubernetesAPIEndpoints = []v1alpha1.KubernetesAPIEndpoint{
		{ClientNetwork: "vpn", ServerAddress: "https://vpn"}, {ClientCIDR: "10.0.0.0/8", ServerAddress: "https://inside"}, {ServerAddress: "https://old"},
	}
	own.fill(c)
	if c.Annotations["note"] != "kept" || c.Spec.KubernetesAPIEndpoints[0].ServerAddress != "https://vpn" || c.Spec.KubernetesAPIEndpoints[1].ServerAddress != "https://inside" {
		t.Errorf("what is the user's has changed: %+v", c)
	}
	if _, asked := c.Annotations[v1alpha1.AnnotationLeave]; asked {
		t.Error("a request to leave that is about another key stays")
	}
	if c.Spec.KubernetesAPIEndpoints[2].ServerAddress != "https://a:6443" || c.Spec.AuthInfo.SecretRef.Name != "a" || c.Spec.Mesh.Endpoints[0] != "a:7946" {
		t.Errorf("not up to date: %+v", c.Spec)
	}
	before := c.DeepCopy()
	if own.fill(c); !own.complete(before) || cmp.Diff(before, c) != "" {
		t.Errorf("filled again it changes: %s", cmp.Diff(before, c))
	}
}

// A reader takes the first address for all clients, or without a network: it is the agent's own, whoever has written others.
func TestOwnEndpointIsFirst(t *testing.T) {
	own := v1alpha1.KubernetesAPIEndpoint{ServerAddress: "https://a:6443", CABundle: []byte("ca")}
	vpn := v1alpha1.KubernetesAPIEndpoint{ClientNetwork: "vpn", ServerAddress: "https://vpn"}
	some := v1alpha1.KubernetesAPIEndpoint{ClientCIDR: "10.0.0.0/8", ServerAddress: "https://inside"}
	all := v1alpha1.KubernetesAPIEndpoint{ClientCIDR: "0.0.0.0/0", ServerAddress: "https://mallory"}
	none := v1alpha1.KubernetesAPIEndpoint{ServerAddress: "https://mallory"}
	type list = []v1alpha1.KubernetesAPIEndpoint
	for name, test := range map[string]struct{ have, want list }{
		"none":             {nil, list{own}},
		"of others":        {list{vpn, some}, list{vpn, some, own}},
		"the one there is": {list{none, vpn}, list{own, vpn}},
		"up to date":       {list{vpn, some, own, all}, list{vpn, some, own, all}},
		"behind all":       {list{all, own}, list{own, all}},
		"all alone":        {list{vpn, all}, list{vpn, own, all}},
		"two without":      {list{vpn, none, none}, list{vpn, own, none}},
	} {
		have := slices.Clone(test.have)
		got := withOwn(have, own)
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if diff := cmp.Diff(got, withOwn(got, own)); diff != "" {
			t.Errorf("%s: again it changes:\n%s", name, diff)
		}
		if diff := cmp.Diff(test.have, have); diff != "" {
			t.Errorf("%s: its argument has changed:\n%s", name, diff)
		}
	}
}

// A Cluster without a clusterID is never this cluster's own, also if it has the name: it may stand for another one.
func TestFindOwn(t *testing.T) {
	object := func(name, id string, age int) *v1alpha1.Cluster {
		c := agenttest.Cluster(name, id)
		c.CreationTimestamp = metav1.NewTime(time.Unix(1000, 0).Add(-time.Duration(age) * time.Second))
		return c
	}
	for name, test := range map[string]struct {
		list  []*v1alpha1.Cluster
		named string
		want  string // its name
		says  string // else the error
	}{
		"none yet":               {nil, "a", "", ""},
		"none, and no name":      {nil, "", "", "--cluster-name is not given"},
		"it":                     {[]*v1alpha1.Cluster{object("b", agenttest.IDB, 1), object("a", agenttest.IDA, 1)}, "a", "a", ""},
		"under another name":     {[]*v1alpha1.Cluster{object("x", agenttest.IDA, 1)}, "a", "x", ""},
		"the one of the name":    {[]*v1alpha1.Cluster{object("x", agenttest.IDA, 3), object("a", agenttest.IDA, 1)}, "a", "a", ""},
		"the oldest":             {[]*v1alpha1.Cluster{object("x", agenttest.IDA, 1), object("y", agenttest.IDA, 3)}, "a", "y", ""},
		"a name that is taken":   {[]*v1alpha1.Cluster{object("a", agenttest.IDB, 1)}, "a", "", "belongs to clusterID " + agenttest.IDB},
		"a name that is listed":  {[]*v1alpha1.Cluster{object("a", "", 1)}, "a", "", "has no clusterID; if it stands for this cluster, set its spec.clusterID to " + agenttest.IDA},
		"another that is listed": {[]*v1alpha1.Cluster{object("b", "", 1)}, "a", "", ""},
	} {
		got, err := findOwn(test.list, agenttest.IDA, test.named)
		switch {
		case test.says != "" && (!errors.Is(err, ErrClusterName) || !strings.Contains(err.Error(), test.says)):
			t.Errorf("%s: error %v, want %q", name, err, test.says)
		case test.says == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case (got == nil) != (test.want == "") || got != nil && got.Name != test.want:
			t.Errorf("%s: found %+v, want %q", name, got, test.want)
		}
	}
}
