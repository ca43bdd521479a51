// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"testing"

	"github.com/google/go-cmp/cmp"

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
	c.Spec.KubernetesAPIEndpoints = []v1alpha1.KubernetesAPIEndpoint{{ClientNetwork: "vpn", ServerAddress: "https://vpn"}, {ServerAddress: "https://old"}}
	own.fill(c)
	if c.Annotations["note"] != "kept" || c.Spec.KubernetesAPIEndpoints[0].ServerAddress != "https://vpn" {
		t.Errorf("what is the user's has changed: %+v", c)
	}
	if _, asked := c.Annotations[v1alpha1.AnnotationLeave]; asked {
		t.Error("a request to leave that is about another key stays")
	}
	if c.Spec.KubernetesAPIEndpoints[1].ServerAddress != "https://a:6443" || c.Spec.AuthInfo.SecretRef.Name != "a" || c.Spec.Mesh.Endpoints[0] != "a:7946" {
		t.Errorf("not up to date: %+v", c.Spec)
	}
	before := c.DeepCopy()
	if own.fill(c); !own.complete(before) || cmp.Diff(before, c) != "" {
		t.Errorf("filled again it changes: %s", cmp.Diff(before, c))
	}
}
